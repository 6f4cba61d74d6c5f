//! Opening a device with its own settings.

use std::path::PathBuf;
use std::time::Duration;

use super::{Config, Device, Exhaustion, registry};
use crate::Result;

/// Settings for a device that is about to be opened. It starts with the settings of the environment (see [`Config`]);
/// settings made here override them.
///
/// ```no_run
/// # millstream_core::doctest!();
/// # fn main() -> millstream::Result<()> {
/// use millstream::device::Exhaustion;
/// use millstream::Device;
///
/// let device = Device::builder("cpu")
///     .streams(8)
///     .exhaustion(Exhaustion::Fail)
///     .memory_limit(1 << 30)
///     .open()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `open` is called"]
pub struct DeviceBuilder {
    name: String,
    config: Result<Config>,
}

impl DeviceBuilder {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), config: Config::from_env() }
    }

    /// All settings at once.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Ok(config);
        self
    }

    fn set(mut self, change: impl FnOnce(&mut Config)) -> Self {
        if let Ok(config) = &mut self.config {
            change(config);
        }
        self
    }

    /// Streams in the pool, the default stream included.
    pub fn streams(self, streams: u32) -> Self {
        self.set(|config| config.streams = Some(streams))
    }

    /// What a thread gets when every stream is leased.
    pub fn exhaustion(self, exhaustion: Exhaustion) -> Self {
        self.set(|config| config.exhaustion = exhaustion)
    }

    /// The most device memory that may be used, in bytes.
    pub fn memory_limit(self, bytes: usize) -> Self {
        self.set(|config| config.memory_limit = Some(bytes))
    }

    /// Above `high` percent of the limit, cached memory is given back until `low` percent is reached.
    pub fn watermarks(self, low: u32, high: u32) -> Self {
        self.set(|config| (config.memory_low, config.memory_high) = (low, high))
    }

    /// How long a wait may take.
    pub fn wait_timeout(self, time: Duration) -> Self {
        self.set(|config| config.wait_timeout = Some(time))
    }

    /// Threads that compute at the same time on the CPU device.
    pub fn threads(self, threads: usize) -> Self {
        self.set(|config| config.threads = Some(threads))
    }

    /// Whether one Command may use several threads while others are idle.
    pub fn intra_op(self, on: bool) -> Self {
        self.set(|config| config.intra_op = on)
    }

    /// The number of Commands after which a batch is submitted without being asked.
    pub fn batch_commands(self, count: usize) -> Self {
        self.set(|config| config.batch_commands = count)
    }

    /// Batches of one stream that may be in flight.
    pub fn in_flight(self, count: usize) -> Self {
        self.set(|config| config.in_flight = count)
    }

    /// How many entries of each kind the profiler keeps for each stream.
    pub fn profiler_ring(self, entries: usize) -> Self {
        self.set(|config| config.profiler_ring = entries)
    }

    /// Writes the profiler's trace to this file when the device is closed or the process exits. The profiler then
    /// starts with the device.
    pub fn trace(self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        self.set(|config| config.trace = Some(path))
    }

    /// Whether nothing is written to standard error.
    pub fn quiet(self, on: bool) -> Self {
        self.set(|config| config.quiet = on)
    }

    /// Opens the device.
    ///
    /// # Blocks when
    ///
    /// Always, for a moment: it starts threads or calls a driver.
    ///
    /// # Errors
    ///
    /// A name that no backend has, a device that cannot be opened, or a setting that is not valid.
    pub fn open(self) -> Result<Device> {
        registry::open_new(&self.name, self.config?)
    }
}

//! Opening devices.

use super::health::FaultLog;
use super::inner::{DeviceInner, OPEN, bit, keep};
use super::{Config, Device, DeviceBuilder, MAX_STREAMS, fork, registry};
use crate::memory::DeviceMemory;
use crate::profiler::Profiler;
use crate::stream::StreamPool;
use crate::sync::schedule::AtomicU8;
use crate::{Backend, BackendInfo, OpKind, Result};

impl Device {
    /// Opens a device by name, such as `"cpu"` or `"cuda:1"`, with the settings of the environment (see [`Config`]).
    /// A second call returns the same device.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let device = Device::open("cpu")?; // or "cuda", "cuda:1"
    /// assert!(Device::open("abacus").unwrap_err().to_string().contains("known here"));
    /// # let _ = device;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// The device was not open yet: it starts threads or calls a driver.
    ///
    /// # Errors
    ///
    /// A name that no backend has, a device that cannot be opened, or a setting that does not parse.
    pub fn open(name: &str) -> Result<Self> {
        registry::open_shared(name)
    }

    /// The embedded CPU device.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// let device = Device::cpu()?; // no set-up, no driver
    /// println!("{} with {} streams", device.name(), device.free_streams());
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn cpu() -> Result<Self> {
        Self::open("cpu")
    }

    /// The most capable device that can be opened, or the one that `MILLSTREAM_DEVICE` names.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let device = Device::best()?; // a GPU if there is one, else the CPU
    /// println!("on {}", device.info().description);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    #[doc(alias = "cuda_if_available")]
    pub fn best() -> Result<Self> {
        registry::open_best()
    }

    /// Opens a device with its own settings. This is always a new device.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// let device = Device::builder("cpu").streams(4).memory_limit(1 << 24).open()?;
    /// assert_eq!(device.config().streams, Some(4));
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(name: &str) -> DeviceBuilder {
        DeviceBuilder::new(name)
    }

    /// Every backend that is linked in, with its devices or the reason why there are none.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::Device;
    ///
    /// # fn main() -> millstream::Result<()> {
    /// for (name, devices) in Device::list() {
    ///     match devices {
    ///         Ok(devices) => println!("{name}: {} devices", devices.len()),
    ///         Err(missing) => println!("{missing}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list() -> Vec<(&'static str, Result<Vec<BackendInfo>>)> {
        registry::list()
    }

    /// A device over a backend that is already open.
    ///
    /// # Errors
    ///
    /// Settings out of range, or a trace file that cannot be written.
    pub fn with_backend(backend: Box<dyn Backend>, mut config: Config) -> Result<Self> {
        config.check()?;
        fork::watch();
        let info = backend.info();
        let limit = config.memory_limit.unwrap_or(info.memory_bytes).min(info.memory_bytes);
        let supported = OpKind::ALL
            .iter()
            .filter(|&&kind| backend.supports(kind))
            .fold(0, |set, &kind| set | bit(kind));
        let streams = config.streams.unwrap_or(info.streams.clamp(1, MAX_STREAMS));
        config.streams = Some(streams);
        let inner = DeviceInner {
            opened_before: None,
            label: String::new(),
            supported,
            max_work: backend.max_work(),
            takes_whole_plans: backend.takes_whole_plans(),
            generation: fork::generation(),
            status: AtomicU8::new(OPEN),
            fault_log: FaultLog::default(),
            pool: StreamPool::new(streams),
            memory: DeviceMemory::new(limit, config.memory_high, config.memory_low, &*backend),
            profiler: Profiler::new(&info.name, config.profiler_ring),
            info,
            config,
            backend,
        };
        if let Some(path) = &inner.config.trace {
            crate::profiler::file::begin(path)?;
            inner.profiler.start();
        }
        Ok(Device(keep(Box::new(inner))))
    }
}

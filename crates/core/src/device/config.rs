//! Settings, from code and from environment variables.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, Result};

/// The most streams that a device can have: the bits of one word hold their leases.
pub const MAX_STREAMS: u32 = 64;

/// The fewest and the most entries that the profiler can be set to keep.
const MIN_RING: usize = 16;
const MAX_RING: usize = 1 << 24;

/// What a thread gets when every stream is leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhaustion {
    /// A stream that another thread uses too. Streams are safe to share.
    Share,
    /// The next stream that is given back, or whose thread does not use it at the moment. Threads get streams in
    /// order of arrival. After the time, if there is one, it is an error.
    Wait(Option<Duration>),
    /// An error, immediately.
    Fail,
}

/// A device's settings.
///
/// | environment variable | setting | values | default |
/// |---|---|---|---|
/// | `MILLSTREAM_DEVICE` | what `Device::best` opens | a device's name | the most capable |
/// | `MILLSTREAM_STREAMS` | `streams` | 1 to 64 | as the device likes it: 64 |
/// | `MILLSTREAM_EXHAUSTION` | `exhaustion` | `share`, `wait`, `wait:MILLISECONDS`, `fail` | `share` |
/// | `MILLSTREAM_MEMORY_LIMIT` | `memory_limit` | bytes, with `K`, `M`, `G` or `T` (powers of 1024) | the device's memory; on the CPU three quarters of the machine's, or of the container's |
/// | `MILLSTREAM_MEMORY_HIGH` | `memory_high` | percent of the limit, 1 to 100 | 90 |
/// | `MILLSTREAM_MEMORY_LOW` | `memory_low` | percent of the limit, 0 to 100 | 70 |
/// | `MILLSTREAM_WAIT_TIMEOUT_MS` | `wait_timeout` | milliseconds, from 1 | 30000; on the CPU 600000 |
/// | `MILLSTREAM_THREADS` | `threads` | 1 to 1024 | the machine's cores |
/// | `MILLSTREAM_INTRA_OP` | `intra_op` | `on`, `off` | `on` |
/// | `MILLSTREAM_BATCH_COMMANDS` | `batch_commands` | 1 to 4096 | 64 |
/// | `MILLSTREAM_IN_FLIGHT` | `in_flight` | 1 to 1024 | 16 |
/// | `MILLSTREAM_KERNEL_CACHE` | `kernel_cache` | entries, 1 to 1000000 | 4096 |
/// | `MILLSTREAM_PROFILER_RING` | `profiler_ring` | entries, 16 to 16777216 | 16384 |
/// | `MILLSTREAM_TRACE` | `trace` | a file | none |
/// | `MILLSTREAM_QUIET` | `quiet` | `0`, `1` | `0` |
///
/// Parsing is strict: a value that does not parse is an error when a device is opened. It is never ignored.
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::{Config, Device};
///
/// # fn main() -> millstream::Result<()> {
/// let config = Config { threads: Some(2), quiet: true, ..Config::from_env()? };
/// let device = Device::builder("cpu").config(config).open()?;
/// assert_eq!(device.config().threads, Some(2));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "SessionOptions")]
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Streams in the pool, the default stream included. If `None`, the device decides.
    pub streams: Option<u32>,
    /// What a thread gets when every stream is leased.
    pub exhaustion: Exhaustion,
    /// The most device memory that may be used. The default is all memory of a GPU. For the CPU device it is three
    /// quarters of the machine's memory or of the limit of its control group, so that room is left for everything
    /// else.
    pub memory_limit: Option<usize>,
    /// If more than this share of the limit is in use, in percent, cached memory is given back …
    pub memory_high: u32,
    /// … until this share is reached.
    pub memory_low: u32,
    /// How long a wait may take. If `None`, the device decides: 30 seconds on a GPU, which then counts as one that hangs; 10 minutes on
    /// the CPU device, where a call stands in line behind the computing of others.
    pub wait_timeout: Option<Duration>,
    /// Threads that compute at the same time on the CPU device. If `None`, one per core.
    pub threads: Option<usize>,
    /// Whether one Command may use several threads while others are idle.
    pub intra_op: bool,
    /// The number of Commands after which a batch is submitted without being asked. A plan on the CPU device is one batch,
    /// however many it has.
    pub batch_commands: usize,
    /// Batches of one stream that may be in flight. Recording waits when there are more.
    pub in_flight: usize,
    /// Compiled kernels that are kept.
    pub kernel_cache: usize,
    /// How many entries of each kind the profiler keeps for each stream, and how many spans and marks of users. The
    /// oldest are dropped.
    pub profiler_ring: usize,
    /// The profiler starts with the device, and its trace is written to this file when the device is closed, and when
    /// the process exits by returning from `main` or by [`std::process::exit`]. Devices with the same file share it.
    /// A child of a fork writes nothing.
    pub trace: Option<PathBuf>,
    /// Whether standard error stays empty. Without this, an unoptimized build of the CPU device writes one line.
    pub quiet: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            streams: None,
            exhaustion: Exhaustion::Share,
            memory_limit: None,
            memory_high: 90,
            memory_low: 70,
            wait_timeout: None,
            threads: None,
            intra_op: true,
            batch_commands: 64,
            in_flight: 16,
            kernel_cache: 4096,
            profiler_ring: 16 * 1024,
            trace: None,
            quiet: false,
        }
    }
}

impl Config {
    /// How long a wait may take on a device that works by itself, if nothing is set.
    pub(crate) const USUAL_WAIT: Duration = Duration::from_secs(30);

    /// [`wait_timeout`](Self::wait_timeout), or what it is on a device that works by itself.
    pub fn wait_timeout_or_usual(&self) -> Duration {
        self.wait_timeout.unwrap_or(Self::USUAL_WAIT)
    }

    /// The defaults, overridden by the environment.
    ///
    /// # Errors
    ///
    /// A variable that does not parse.
    pub fn from_env() -> Result<Self> {
        Self::from_lookup(|key| {
            std::env::var_os(key).map(|value| value.to_string_lossy().into_owned())
        })
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut config = Self::default();
        let number = |key: &str, low: usize, high: usize, expected: &'static str| {
            lookup(key).map_or(Ok(None), |value| match value.parse::<usize>() {
                Ok(number) if (low..=high).contains(&number) => Ok(Some(number)),
                _ => Err(invalid(key, &value, expected)),
            })
        };
        if let Some(streams) = number("MILLSTREAM_STREAMS", 1, 64, "1 to 64")? {
            config.streams = Some(streams as u32);
        }
        if let Some(value) = lookup("MILLSTREAM_EXHAUSTION") {
            config.exhaustion = parse_exhaustion(&value)?;
        }
        if let Some(value) = lookup("MILLSTREAM_MEMORY_LIMIT") {
            config.memory_limit = Some(parse_bytes("MILLSTREAM_MEMORY_LIMIT", &value)?);
        }
        if let Some(percent) = number("MILLSTREAM_MEMORY_HIGH", 1, 100, "percent, 1 to 100")? {
            config.memory_high = percent as u32;
        }
        if let Some(percent) = number("MILLSTREAM_MEMORY_LOW", 0, 100, "percent, 0 to 100")? {
            config.memory_low = percent as u32;
        }
        let long = usize::try_from(u32::MAX).unwrap_or(usize::MAX);
        if let Some(time) =
            number("MILLSTREAM_WAIT_TIMEOUT_MS", 1, long, "milliseconds, from 1 to 4294967295")?
        {
            config.wait_timeout = Some(Duration::from_millis(time as u64));
        }
        config.threads = number("MILLSTREAM_THREADS", 1, 1024, "1 to 1024")?;
        if let Some(value) = lookup("MILLSTREAM_INTRA_OP") {
            config.intra_op = match value.as_str() {
                "on" => true,
                "off" => false,
                _ => return Err(invalid("MILLSTREAM_INTRA_OP", &value, "on or off")),
            };
        }
        if let Some(count) = number("MILLSTREAM_BATCH_COMMANDS", 1, 4096, "1 to 4096")? {
            config.batch_commands = count;
        }
        if let Some(count) = number("MILLSTREAM_IN_FLIGHT", 1, 1024, "1 to 1024")? {
            config.in_flight = count;
        }
        if let Some(count) = number("MILLSTREAM_KERNEL_CACHE", 1, 1_000_000, "1 to 1000000")? {
            config.kernel_cache = count;
        }
        if let Some(count) =
            number("MILLSTREAM_PROFILER_RING", MIN_RING, MAX_RING, "16 to 16777216")?
        {
            config.profiler_ring = count;
        }
        if let Some(value) = lookup("MILLSTREAM_TRACE") {
            if value.is_empty() {
                return Err(invalid("MILLSTREAM_TRACE", &value, "the name of a file"));
            }
            config.trace = Some(value.into());
        }
        if let Some(quiet) = number("MILLSTREAM_QUIET", 0, 1, "0 or 1")? {
            config.quiet = quiet == 1;
        }
        config.check()?;
        Ok(config)
    }

    /// Checks values that were set in code.
    ///
    /// # Errors
    ///
    /// A value out of range.
    pub fn check(&self) -> Result<()> {
        let within = |key: &str, value: usize, low: usize, high: usize, expected| {
            let holds = (low..=high).contains(&value);
            if holds { Ok(()) } else { Err(invalid(key, &value.to_string(), expected)) }
        };
        let streams = self.streams.unwrap_or(1) as usize;
        within("streams", streams, 1, MAX_STREAMS as usize, "1 to 64")?;
        within("memory_high", self.memory_high as usize, 1, 100, "percent, 1 to 100")?;
        within(
            "memory_low",
            self.memory_low as usize,
            0,
            self.memory_high as usize,
            "percent, not above memory_high",
        )?;
        within("batch_commands", self.batch_commands, 1, 4096, "1 to 4096")?;
        within("in_flight", self.in_flight, 1, 1024, "1 to 1024")?;
        within("kernel_cache", self.kernel_cache, 1, 1_000_000, "1 to 1000000")?;
        within("profiler_ring", self.profiler_ring, MIN_RING, MAX_RING, "16 to 16777216")?;
        within("threads", self.threads.unwrap_or(1), 1, 1024, "1 to 1024")?;
        let is_zero = self.wait_timeout.is_some_and(|time| time.is_zero());
        within("wait_timeout", usize::from(!is_zero), 1, 1, "more than zero")
    }
}

fn invalid(key: &str, value: &str, expected: &'static str) -> Error {
    Error::InvalidConfig { key: key.to_owned(), value: value.to_owned(), expected }
}

fn parse_exhaustion(value: &str) -> Result<Exhaustion> {
    let error =
        || invalid("MILLSTREAM_EXHAUSTION", value, "share, wait, wait:MILLISECONDS or fail");
    match value.split_once(':') {
        None if value == "share" => Ok(Exhaustion::Share),
        None if value == "wait" => Ok(Exhaustion::Wait(None)),
        None if value == "fail" => Ok(Exhaustion::Fail),
        Some(("wait", time)) => {
            let time = time.parse().map_err(|_| error())?;
            Ok(Exhaustion::Wait(Some(Duration::from_millis(time))))
        }
        _ => Err(error()),
    }
}

fn parse_bytes(key: &str, value: &str) -> Result<usize> {
    let error = || invalid(key, value, "bytes from 1 up, with K, M, G or T for powers of 1024");
    let (digits, shift) = match value.char_indices().last() {
        Some((end, 'K')) => (&value[..end], 10),
        Some((end, 'M')) => (&value[..end], 20),
        Some((end, 'G')) => (&value[..end], 30),
        Some((end, 'T')) => (&value[..end], 40),
        _ => (value, 0),
    };
    let number: usize = digits.parse().map_err(|_| error())?;
    number.checked_mul(1 << shift).filter(|&bytes| bytes > 0).ok_or_else(error)
}

#[cfg(test)]
mod tests;

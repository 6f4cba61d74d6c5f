//! Devices.

mod builder;
mod config;
pub(crate) mod fork;
mod health;
mod registry;

pub use builder::DeviceBuilder;
pub use config::{Config, Exhaustion, MAX_STREAMS};
pub use health::{Health, HealthState};

use std::fmt;
use std::sync::atomic::AtomicPtr;

use self::health::FaultLog;
use self::registry::{PUBLISH, READ};
use crate::memory::DeviceMemory;
use crate::profiler::Profiler;
use crate::stream::{Deadline, Reason, StreamInner, StreamPool};
use crate::sync::schedule::{AtomicU8, Ordering};
use crate::{
    Backend, BackendInfo, Buffer, Command, Counters, DType, Error, Layout, MemoryStats, Op, OpKind,
    Ready, Result, Stream,
};

/// A device: a handle that costs nothing to copy and may be used from any thread.
///
/// A device lives as long as the process, so that threads may be in the middle of a call when `main`
/// returns. [`close`](Self::close) gives its memory and threads back early.
#[derive(Clone, Copy)]
pub struct Device(&'static DeviceInner);

/// The state of a device. On the hot path it is only read.
pub(crate) struct DeviceInner {
    /// The device opened before this one.
    opened_before: Option<&'static DeviceInner>,
    info: BackendInfo,
    config: Config,
    backend: Box<dyn Backend>,
    supported: u64,
    max_work: u64,
    /// The process it was opened in.
    generation: u32,
    /// One of the constants below.
    status: AtomicU8,
    fault_log: FaultLog,
    pool: StreamPool,
    memory: DeviceMemory,
    profiler: Profiler,
}

/// The device opened last. All devices hang together from here, so that what lives as long as the process
/// is never mistaken for a leak.
static NEWEST: AtomicPtr<DeviceInner> = AtomicPtr::new(std::ptr::null_mut());

/// Keeps a device for the rest of the process.
fn keep(mut inner: Box<DeviceInner>) -> &'static DeviceInner {
    let mut newest = NEWEST.load(READ);
    loop {
        // SAFETY: null, or a device that is never freed.
        inner.opened_before = unsafe { newest.as_ref() };
        let kept = Box::into_raw(inner);
        match NEWEST.compare_exchange(newest, kept, PUBLISH, READ) {
            // SAFETY: just made, and nobody frees it from here on.
            Ok(_) => return unsafe { &*kept },
            Err(current) => {
                // SAFETY: made by `into_raw` above and not published.
                inner = unsafe { Box::from_raw(kept) };
                newest = current;
            }
        }
    }
}

const OPEN: u8 = 0;
const LOST: u8 = 1;
const CLOSED: u8 = 2;

impl Device {
    /// Opens a device by name, as in `"cpu"` or `"cuda:1"`, with the settings of the environment (see
    /// [`Config`]). A second call gives the same device.
    ///
    /// # Blocks when
    ///
    /// The device was not open yet: it starts threads, or asks a driver.
    ///
    /// # Errors
    ///
    /// A name no backend has, a device that cannot be opened, or a setting that does not parse.
    pub fn open(name: &str) -> Result<Self> {
        registry::open_shared(name)
    }

    /// The embedded CPU device.
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

    /// The most capable device that opens, or the one that `MILLSTREAM_DEVICE` names.
    ///
    /// # Blocks when
    ///
    /// As for [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn best() -> Result<Self> {
        registry::open_best()
    }

    /// Opens a device with settings of its own; always a new one.
    pub fn builder(name: &str) -> DeviceBuilder {
        DeviceBuilder::new(name)
    }

    /// Every backend that is linked in, with its devices or the reason why it has none.
    pub fn list() -> Vec<(&'static str, Result<Vec<BackendInfo>>)> {
        registry::list()
    }

    /// A device over a backend that is already open.
    ///
    /// # Errors
    ///
    /// Settings out of range.
    pub fn with_backend(backend: Box<dyn Backend>, mut config: Config) -> Result<Self> {
        config.check()?;
        fork::watch();
        let info = backend.info();
        let limit = config.memory_limit.unwrap_or(info.memory_bytes).min(info.memory_bytes);
        let supported = OpKind::ALL
            .iter()
            .filter(|&&kind| backend.supports(kind))
            .fold(0, |set, &kind| set | 1u64 << kind as u8);
        let streams = config.streams.unwrap_or(info.streams.clamp(1, MAX_STREAMS));
        config.streams = Some(streams);
        let inner = DeviceInner {
            opened_before: None,
            supported,
            max_work: backend.max_work(),
            generation: fork::generation(),
            status: AtomicU8::new(OPEN),
            fault_log: FaultLog::default(),
            pool: StreamPool::new(streams),
            memory: DeviceMemory::new(limit, config.memory_high, config.memory_low),
            profiler: Profiler::new(&info.name),
            info,
            config,
            backend,
        };
        Ok(Device(keep(Box::new(inner))))
    }

    pub(crate) fn from_inner(inner: &'static DeviceInner) -> Self {
        Device(inner)
    }

    pub(crate) fn inner(&self) -> &'static DeviceInner {
        self.0
    }

    /// The name it is opened by.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// What it is.
    pub fn info(&self) -> &'static BackendInfo {
        &self.0.info
    }

    /// Its settings.
    pub fn config(&self) -> &'static Config {
        &self.0.config
    }

    /// Whether it executes this kind of Command.
    pub fn supports(&self, kind: OpKind) -> bool {
        self.0.supported & (1 << kind as u8) != 0
    }

    /// The layout of a buffer for weights of this layout, packed for matrix products by
    /// [`Command::pack_weights`](crate::Command::pack_weights). `None` where the device gains nothing
    /// from it: then the weights are used as they are.
    pub fn packed_layout(&self, weights: &Layout) -> Option<Layout> {
        let bytes = self.0.backend.packed_bytes(weights)?;
        Layout::contiguous(DType::U8, &[bytes]).ok()
    }

    /// The calling thread's current stream.
    ///
    /// # Blocks when
    ///
    /// As for [`Stream::current`].
    ///
    /// # Errors
    ///
    /// As for [`Stream::current`].
    pub fn stream(&self) -> Result<Stream> {
        Stream::current(self)
    }

    /// Waits, without a thread, until recording on the current stream of the thread that polls does not block; see
    /// [`Stream::ready`]. Where that stream is busy and another one is idle and free, the thread goes on with that
    /// one: so the calls of a few threads of an executor run side by side. A stream that the thread was given by
    /// [`Stream::scope`] or [`Stream::make_current`] stays, and so does the default stream of the main thread.
    ///
    /// ```
    /// # use millstream_core::{fake, Config, Device, Result};
    /// async fn call(device: &Device) -> Result<()> {
    ///     device.ready().await?;
    ///     // … record a call here, and await its result …
    ///     device.stream()?.timepoint().await
    /// }
    /// # let (device, _) = fake::device(Config::default(), 1 << 20, 1).unwrap();
    /// # let mut future = std::pin::pin!(call(&device));
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # while future.as_mut().poll(&mut context).is_pending() {}
    /// ```
    pub fn ready(&self) -> Ready {
        Ready::of_device(*self)
    }

    /// Memory whose home is the calling thread's current stream.
    ///
    /// # Blocks when
    ///
    /// As for [`Stream::allocate`].
    ///
    /// # Errors
    ///
    /// As for [`Stream::allocate`].
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        Stream::current_unleased(self)?.allocate(bytes)
    }

    /// Waits until everything recorded on any stream so far has finished, for as long as the device is set
    /// to in all. A stream that fails does not keep the others from being waited for.
    ///
    /// # Blocks when
    ///
    /// Anything recorded has not finished.
    ///
    /// # Errors
    ///
    /// The first error.
    pub fn synchronize(&self) -> Result<()> {
        self.0.check()?;
        let streams: Vec<_> = self.0.pool.created().collect();
        // All get their work before the first is waited for.
        let mut first = Ok(());
        let deadline = Deadline::usual(self.0);
        for stream in &streams {
            first = first.and(stream.flush(Reason::Flush, deadline));
        }
        for stream in &streams {
            first = first.and(stream.synchronize_by(deadline));
        }
        first
    }

    /// Gives cached memory that nobody uses back to the device, and pooled host memory of transfers.
    /// What a device counts on for batches that it would run again stays.
    ///
    /// # Blocks when
    ///
    /// A driver takes its time to take memory back.
    ///
    /// # Errors
    ///
    /// A device that is gone.
    pub fn empty_cache(&self) -> Result<()> {
        self.0.check()?;
        crate::memory::trim_device(self.0);
        for stream in self.0.pool.created() {
            stream.queue().trim();
        }
        Ok(())
    }

    /// What the device's memory is used for. All zero for a device inherited through a fork.
    pub fn memory(&self) -> MemoryStats {
        if self.0.is_inherited() { MemoryStats::default() } else { crate::memory::stats_of(self.0) }
    }

    /// What all streams did so far.
    pub fn counters(&self) -> Counters {
        let streams = self.0.pool.created().map(StreamInner::read_counters);
        streams.fold(Counters::default(), std::ops::Add::add)
    }

    /// Streams that can be leased now.
    pub fn free_streams(&self) -> u32 {
        self.0.pool.free()
    }

    /// The profiler.
    pub fn profiler(&self) -> &'static Profiler {
        &self.0.profiler
    }

    /// How the device is.
    pub fn health(&self) -> Health {
        self.0.health()
    }

    /// Finishes what is recorded, then gives memory and threads back. Every later call fails with
    /// [`Error::DeviceClosed`]; memory of buffers that still live goes back when they are dropped.
    ///
    /// # Blocks when
    ///
    /// Anything recorded has not finished, and until the threads of the device have ended.
    ///
    /// # Errors
    ///
    /// Work that does not finish in time (the device stays open), or a device that is gone. A fault of
    /// the last work is returned after closing.
    pub fn close(self) -> Result<()> {
        self.0.check()?;
        let result = self.0.wait_idle();
        if let Err(error @ Error::Timeout { .. }) = result {
            return Err(error);
        }
        if self
            .0
            .status
            .compare_exchange(OPEN, CLOSED, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return self.0.check();
        }
        // What was recorded between the wait and the closing.
        let _ = self.0.wait_idle();
        self.0.backend.close();
        crate::memory::trim_device(self.0);
        result
    }
}

impl DeviceInner {
    pub fn name(&self) -> &str {
        &self.info.name
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub fn pool(&self) -> &StreamPool {
        &self.pool
    }

    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    pub fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    /// Batches that one stream may have in flight; always below what makes the platform block.
    pub fn in_flight_cap(&self) -> usize {
        self.config.in_flight.min(self.info.queue_capacity.saturating_sub(1)).max(1)
    }

    /// Batches that run at the same time at full speed.
    pub fn parallelism(&self) -> usize {
        self.info.parallelism.max(1)
    }

    /// Whether the device was opened before a fork, in the parent.
    pub fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    pub fn is_closed(&self) -> bool {
        self.status.load(Ordering::Acquire) == CLOSED
    }

    /// Whether nothing comes any more from one of the streams.
    pub fn has_lost_streams(&self) -> bool {
        self.pool.created().any(|stream| stream.progress().lost().is_some())
    }

    /// Whether the device can be used. Two loads of words that hardly ever change.
    pub fn check(&self) -> Result<()> {
        if self.status.load(Ordering::Acquire) == OPEN && !self.is_inherited() {
            return Ok(());
        }
        Err(self.refusal())
    }

    #[cold]
    fn refusal(&self) -> Error {
        let device = self.name().to_owned();
        if self.is_inherited() {
            return Error::Forked { device };
        }
        match self.status.load(Ordering::Acquire) {
            LOST => self.fault_log.lost(&device),
            _ => Error::DeviceClosed { device },
        }
    }

    /// Whether the device can do this, and in bounded time. `bytes` are those that its operands hold.
    pub fn check_command<B>(&self, command: &Command<B>, bytes: usize) -> Result<()> {
        self.check_support(command.op())?;
        // A look at the operands, which a device without a bound is spared.
        if self.max_work != u64::MAX && command.is_more_work(bytes, self.max_work) {
            return Err(Error::Invalid {
                op: command.op().name(),
                reason: format!(
                    "needs about {} operations, more than the {} that one Command may on {}: divide it",
                    command.work(),
                    self.max_work,
                    self.name()
                ),
            });
        }
        Ok(())
    }

    fn check_support(&self, op: &Op) -> Result<()> {
        if self.supported & (1 << op.kind() as u8) != 0 {
            return Ok(());
        }
        Err(Error::Unsupported {
            op: op.name(),
            device: self.name().to_owned(),
            reason: "the device has no kernel for it".into(),
        })
    }

    /// Waits until everything recorded has passed, whatever became of it; the first error.
    pub fn wait_idle(&'static self) -> Result<()> {
        let mut first = Ok(());
        let deadline = Deadline::usual(self);
        for stream in self.pool.created() {
            first = first.and(stream.wait_until_passed_by(stream.recorded(), deadline));
        }
        first
    }
}

// A panic leaves a device usable; see `StreamInner`.
impl std::panic::RefUnwindSafe for DeviceInner {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Device {}

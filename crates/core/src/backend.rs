//! The two traits that a device implements: [`Backend`] and [`Queue`].

mod batch;

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::DeviceInner;
use crate::memory::trim_device;
use crate::profiler::StreamProfile;
use crate::{Config, HostBytes, Layout, OpKind, Progress, Result};

/// What a backend says about its device.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendInfo {
    /// The name it is opened by, as in `"cpu"` or `"cuda:0"`.
    pub name: String,
    /// What it is, in words.
    pub description: String,
    /// How much memory all buffers together can have.
    pub memory_bytes: usize,
    /// Batches that run at the same time at full speed.
    pub parallelism: usize,
    /// How many batches a queue takes before it blocks by itself. The runtime stays below this.
    pub queue_capacity: usize,
    /// Every address it hands out is a multiple of this.
    pub alignment: usize,
    /// The default number of streams; at most [`MAX_STREAMS`](crate::MAX_STREAMS).
    pub streams: u32,
    /// Whether it computes with 64-bit floating point. If not, Commands that need it are refused when they are recorded.
    pub f64: bool,
}

/// Who keeps bytes of the host that a device reads where they lie.
pub type HostOwner = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Device memory from the driver. Dropping it frees it.
pub struct Segment {
    /// The device address of the first byte.
    pub address: usize,
    /// The size.
    pub bytes: usize,
    /// The host's address of the first byte, where host and device share memory: the runtime then reads and writes it in
    /// place when the device is through with it.
    pub host: Option<usize>,
    /// What owns the memory.
    pub owner: Box<dyn Any + Send>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment")
            .field("address", &format_args!("{:#x}", self.address))
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// The stream that a queue serves, as the backend sees it.
#[derive(Debug)]
pub struct QueueContext {
    /// The stream's number: below 64, and unique on the device.
    pub stream: u32,
    /// Where the queue reports its progress.
    pub progress: Arc<Progress>,
    /// Where the queue reports what ran when, if the profiler is on.
    pub profile: Arc<StreamProfile>,
    /// What a queue asks for memory when the device has none for a batch.
    pub reclaim: Reclaim,
}

/// Gives back memory of a device that is only kept for later.
#[derive(Clone, Copy)]
pub struct Reclaim(&'static DeviceInner);

impl Reclaim {
    pub(crate) fn new(device: &'static DeviceInner) -> Self {
        Self(device)
    }

    /// Frees all segments of the device that hold nothing. Called with no lock held.
    pub fn run(&self) {
        trim_device(self.0);
    }
}

impl std::fmt::Debug for Reclaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reclaim").field(&self.0.name()).finish()
    }
}

/// A point in the work of a stream, as plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitFor {
    /// The stream.
    pub stream: u32,
    /// The sequence number that must have passed.
    pub sequence: u64,
}

pub use batch::Batch;
pub(crate) use batch::{BatchLists, PlacedValues};

/// The in-order work queue of one stream.
///
/// A thread that [advances](Progress::advance) the stream's progress then wakes the tasks that wait for it
/// ([`Progress::wake_tasks`]), with no lock held: wakers are foreign code. Only [`poll`](Self::poll) leaves that to
/// its caller.
///
/// `submit` is called by one thread at a time, the other methods by any thread at any time.
pub trait Queue: Send + Sync {
    /// Takes a batch. Platform objects of the submission (command buffers, encoders) are made, filled and
    /// committed inside this call.
    ///
    /// If some Commands of the batch cannot run, the batch is still accepted, and only these Commands fail
    /// ([`Batch::fail`]).
    ///
    /// # Errors
    ///
    /// The device or this queue no longer works: all pending work of the stream fails with this error.
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) fails all other streams too.
    fn submit(&self, batch: Batch) -> Result<()>;

    /// Updates the stream's [`Progress`] without blocking. Called with a lock held; the caller wakes the tasks.
    fn poll(&self) {}

    /// A task waits for `sequence`, perhaps without any waiting thread. From now on, as long as tasks wait
    /// ([`Progress::is_awaited`]), the device's own threads update the stream's [`Progress`], report failures there,
    /// and [wake](Progress::wake_tasks) the tasks. Never blocks; called with no lock held.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) if the device is gone.
    fn watch(&self, _sequence: u64) -> Result<()> {
        Ok(())
    }

    /// Blocks until `sequence` has passed ([`Progress::passed`]) or the deadline is over. May return early; the
    /// caller checks again. The calling thread may execute work until the deadline.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) if the device is gone.
    fn wait(&self, sequence: u64, deadline: Instant) -> Result<()>;

    /// Host memory that the device reads and writes by itself (pinned memory), for a transfer of `bytes` bytes;
    /// usually from a [`HostPool`](crate::HostPool). With `None` the transfer uses memory from the heap. Called
    /// with no lock held.
    fn host_memory(&self, _bytes: usize) -> Option<HostBytes> {
        None
    }

    /// Frees pooled host memory that is not in use and whose address nobody relies on. Called with no lock held.
    fn trim(&self) {}

    /// How many batches it recognized and replayed without lowering them again.
    fn replays(&self) -> u64 {
        0
    }
}

/// One device.
pub trait Backend: Send + Sync + 'static {
    /// What the device is.
    fn info(&self) -> BackendInfo;

    /// Whether it executes this kind of Command.
    fn supports(&self, kind: OpKind) -> bool;

    /// The most [work](crate::Command::work) that one Command may have. A Command with more would block the device
    /// for too long, and is refused when it is recorded.
    fn max_work(&self) -> u64 {
        u64::MAX
    }

    /// Whether a plan is one batch, however many Commands it has: for a device whose callers stand in line for every batch, and
    /// would wait once for each otherwise. Others get at most [`Config::batch_commands`](crate::Config) at a time.
    fn takes_whole_plans(&self) -> bool {
        false
    }

    /// How long a wait may take if [`Config::wait_timeout`](crate::Config::wait_timeout) is not set. A device that works by itself and
    /// does not answer for so long counts as one that hangs.
    fn usual_wait(&self) -> Duration {
        crate::Config::USUAL_WAIT
    }

    /// How many batches execute at a time, for a device that has an arena [bound](Batch::bind_arena) to each batch when
    /// it begins to execute it. The runs of all streams then share so many arenas. Others get batches with arenas of their
    /// streams.
    fn arena_users(&self) -> Option<usize> {
        None
    }

    /// Bytes of the first segment that a stream takes for many small blocks of a size; each further one is twice as large,
    /// up to the usual size. Small for a device on which taking a segment costs little.
    fn first_segment(&self) -> usize {
        usize::MAX
    }

    /// Bytes that weights of this layout take when packed for matrix products, or `None` where
    /// packing gains nothing; see [`Command::pack_weights`](crate::Command::pack_weights).
    fn packed_bytes(&self, _weights: &Layout) -> Option<usize> {
        None
    }

    /// Memory of at least that size, or `None` when there is none left.
    ///
    /// # Errors
    ///
    /// Only for faults; a lack of memory is not one.
    fn allocate(&self, bytes: usize) -> Result<Option<Segment>>;

    /// The contents at an address are complete and will not change: they are weights. For a backend that treats these
    /// differently.
    fn settled(&self, _address: usize) {}

    /// Memory of the host for the device to read where it lies: a segment, and how far behind its first byte the given bytes
    /// begin. The segment keeps the owner. `None` if this device cannot; then the bytes are copied.
    ///
    /// # Errors
    ///
    /// The device is gone.
    ///
    /// # Safety
    ///
    /// As long as the owner lives, there are so many bytes, and nobody writes them.
    unsafe fn wrap(
        &self,
        _first: NonNull<u8>,
        _bytes: usize,
        _owner: HostOwner,
    ) -> Result<Option<(Segment, usize)>> {
        Ok(None)
    }

    /// Bytes of scratch memory that kernels use or keep for later.
    fn scratch_bytes(&self) -> usize {
        0
    }

    /// A queue for a stream that has none yet.
    ///
    /// # Errors
    ///
    /// The device cannot have one more queue.
    fn new_queue(&self, context: QueueContext) -> Result<Arc<dyn Queue>>;

    /// Stops background threads. Called when all submitted work has passed; nothing is submitted afterwards.
    fn close(&self) {}
}

/// A backend that is linked into the program. Entries are collected with `inventory`, so
/// [`Device::open`](crate::Device::open) finds every backend crate that is linked.
#[derive(Debug)]
pub struct BackendEntry {
    /// The name, as in `"cpu"`; a device may add `":0"`.
    pub name: &'static str,
    /// [`Device::best`](crate::Device::best) tries the highest first.
    pub preference: u32,
    /// The devices that could be opened now, or why there are none.
    pub list: fn() -> Result<Vec<BackendInfo>>,
    /// Opens device number `index` of this backend.
    pub open: fn(index: usize, config: &Config) -> Result<Box<dyn Backend>>,
}

inventory::collect!(BackendEntry);

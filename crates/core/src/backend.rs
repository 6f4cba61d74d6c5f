//! What a device must be able to do: two small traits.

mod batch;

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use crate::profiler::StreamProfile;
use crate::{Config, HostBytes, Layout, OpKind, Progress, Result};

/// What a backend says about its device.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendInfo {
    /// The name it is opened by, as in `"cpu"` or `"cuda:0"`.
    pub name: String,
    /// What it is, in words.
    pub description: String,
    /// Memory that buffers can have, all together.
    pub memory_bytes: usize,
    /// Batches that run at the same time at full speed.
    pub parallelism: usize,
    /// Batches that one queue takes before it blocks by itself; ours is kept below it.
    pub queue_capacity: usize,
    /// Every address it hands out is a multiple of this.
    pub alignment: usize,
    /// Streams of a pool whose size nobody has chosen; at most [`MAX_STREAMS`](crate::MAX_STREAMS).
    pub streams: u32,
}

/// A piece of device memory. Dropping it gives it back.
pub struct Segment {
    /// The device address of the first byte.
    pub address: usize,
    /// The size.
    pub bytes: usize,
    /// What owns the memory.
    pub owner: Box<dyn Any + Send>,
}

/// The stream that a queue serves, as the backend sees it.
pub struct QueueContext {
    /// The stream's number; below 64, and never used for two queues of one device.
    pub stream: u32,
    /// Where the queue says how far it has come.
    pub progress: Arc<Progress>,
    /// Where the queue says what ran when, if anybody wants to know.
    pub profile: Arc<StreamProfile>,
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
/// Whoever [advances](Progress::advance) the stream's progress wakes the tasks that wait for it, in a second step
/// and with no lock held ([`Progress::wake_tasks`]): wakers are foreign code. Only [`poll`](Self::poll) leaves
/// that to its caller.
///
/// `submit` is called by one thread at a time; the others by any thread at any time.
pub trait Queue: Send + Sync {
    /// Takes a batch. Everything that the platform needs (command buffers, encoders) is made, filled
    /// and committed inside this call.
    ///
    /// A batch that cannot be run for a reason of its own is taken all the same, and the Commands concerned
    /// fail in their turn ([`Batch::fail`]): what comes before and after them is not harmed.
    ///
    /// # Errors
    ///
    /// The device or this queue takes nothing any more: everything of the stream that has not passed fails
    /// with this error. [`Error::DeviceLost`](crate::Error::DeviceLost) ends all other streams too.
    fn submit(&self, batch: Batch) -> Result<()>;

    /// Brings the stream's [`Progress`] up to date, without blocking. Called with a lock held: tasks that this
    /// releases are woken by the caller.
    fn poll(&self) {}

    /// A task waits for `sequence`, and no thread may. From here on the device's own threads see to it that the
    /// stream's [`Progress`] comes there and that tasks are [woken](Progress::wake_tasks), as long as there are
    /// any ([`Progress::is_awaited`]). What failed shows there too, so that a device that nobody asks is
    /// looked after. Never blocks; called with no lock held.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) if the device is gone.
    fn watch(&self, _sequence: u64) -> Result<()> {
        Ok(())
    }

    /// Blocks until `sequence` has passed ([`Progress::passed`]), or the deadline, or something else
    /// happened that is worth another look. The calling thread may be put to work, but not beyond the
    /// deadline.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) if the device is gone.
    fn wait(&self, sequence: u64, deadline: Instant) -> Result<()>;

    /// Host memory that the device reads and writes by itself, for a transfer of so many bytes; mostly
    /// from a [`HostPool`](crate::HostPool). `None` where that gains nothing or none is left: then the
    /// transfer has memory from the heap. Called with no lock held.
    fn host_memory(&self, _bytes: usize) -> Option<HostBytes> {
        None
    }

    /// Frees pooled host memory that is not in use and whose address nobody relies on. Called with no lock held.
    fn trim(&self) {}

    /// How many batches it recognized and ran again as they were, without preparing them anew.
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

    /// The most [work](crate::Command::work) that one Command may be: what would keep the device for longer
    /// than anybody waits is refused when it is recorded.
    fn max_work(&self) -> u64 {
        u64::MAX
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

    /// A queue for a stream that has none yet.
    ///
    /// # Errors
    ///
    /// Whatever keeps the device from having one more queue.
    fn new_queue(&self, context: QueueContext) -> Result<Arc<dyn Queue>>;

    /// Stops background threads. Nothing is submitted any more, and everything submitted has passed.
    fn close(&self) {}
}

/// A backend that is linked into the program. Collected with `inventory`, so that linking a backend
/// crate is all it takes for [`Device::open`](crate::Device::open) to know it.
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

//! The trait between this crate and a driver: what a GPU platform does.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::sync::Cached;
use millstream_core::sync::schedule::AtomicU32;
use millstream_core::{BackendInfo, Epilogue, HostOwner, Result};
use millstream_kernels::{Key, Limits};

use crate::Segments;
use crate::failure::{DeviceStatus, Failure};
use crate::lowering::{LaunchFailure, LaunchList, ProductOperands};

/// A place in memory as a launch names it: a segment and an offset in bytes.
///
/// A platform with addresses adds the two. A platform with buffer objects binds the object with the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding<S> {
    /// The segment.
    pub segment: S,
    /// The offset in bytes.
    pub offset: usize,
}

impl<S> Binding<S> {
    /// The place `bytes` bytes later.
    pub fn offset_by(self, bytes: usize) -> Self {
        Self { segment: self.segment, offset: self.offset + bytes }
    }
}

/// Memory of the device. Dropping it frees it.
pub trait Memory: Send + Sync + 'static {
    /// How launches name it.
    type Segment: Copy + Send + Sync + 'static;

    /// The address that core gives to its operands: a name for the first byte, a multiple of 256. Address ranges of
    /// living memory do not overlap. A platform whose segments are objects never reuses an address, so that a list
    /// that was captured with one object is never replayed for another.
    fn address(&self) -> usize;

    /// The size, which is at least the size that was asked for.
    fn bytes(&self) -> usize;

    /// Its name in launches.
    fn segment(&self) -> Self::Segment;

    /// The first byte as the host sees it, where it sees the memory of the device. Host and device may use it in turn.
    fn visible(&self) -> Option<NonNull<u8>> {
        None
    }
}

/// Memory that host and device both read and write.
///
/// # Safety
///
/// As long as the value lives, there are [`bytes`](Memory::bytes) initialized bytes at [`host`](Self::host), which is
/// a multiple of 8. Only the owner and launches that name the memory touch them.
pub unsafe trait HostVisible: Memory {
    /// The first byte in the host's address space.
    fn host(&self) -> NonNull<u8>;
}

/// One GPU of a platform, on which the queues of this crate run. A handle that is cheap to clone.
///
/// Any thread may call any method, after [`enter`](Self::enter) on that thread unless the method says otherwise. One
/// thread at a time uses an [`Encoder`](Self::Encoder).
///
/// A failure says whether the device is [lost](Failure::sticky) by it; this crate notes that.
pub trait Platform: Clone + Send + Sync + 'static {
    /// How a launch names a piece of memory.
    type Segment: Copy + Send + Sync + 'static;
    /// Memory of the device.
    type Memory: Memory<Segment = Self::Segment>;
    /// Memory that host and device reach.
    type HostMemory: HostVisible<Segment = Self::Segment>;
    /// A compiled kernel.
    type Kernel: Send + Sync + 'static;
    /// A matrix product of the platform's library, ready to be launched.
    type Product: Send + 'static;
    /// An in-order queue of the device.
    type Queue: Send + Sync + 'static;
    /// What one thread at a time needs to fill a queue: handles of libraries, events, a queue to capture on.
    type Encoder: Send + 'static;
    /// A launch list in a form that can be launched again.
    type Captured: Send + 'static;

    /// Copies of up to this many bytes are made by a kernel. Larger ones use the platform's own copies. 0 if no copy
    /// is made by a kernel.
    const KERNEL_COPY_BYTES: usize;

    /// Whether launches of a list may run in any order and at the same time, except that one that
    /// [waits](LaunchList::waits) comes after all before it. Else each comes after the one before.
    const CONCURRENT: bool = false;

    /// Whether many kernels are better compiled together: then those of a batch that are not [known](Self::known) are
    /// [prepared](Self::prepare) in one go.
    const PREPARES: bool = false;

    /// Whether [`wait`](Self::wait) blocks; else waiting threads poll and are woken by the watcher.
    const WAITS: bool = false;

    /// Whether there is a [bound](Self::max_launch_work) on the work of a launch.
    const BOUNDED: bool = false;

    /// The properties of the device.
    fn info(&self) -> BackendInfo;

    /// The number of the device among those of the platform.
    fn number(&self) -> usize;

    /// The size of the device's memory.
    fn memory_bytes(&self) -> usize;

    /// Memory of the device that is taken, as far as the platform knows: for errors.
    fn allocated_bytes(&self) -> usize {
        self.memory_bytes()
    }

    /// The limits of kernels.
    fn limits(&self) -> &Limits;

    /// [Work](millstream_core::Command::work) that one launch may have before the hardware might take it for stuck.
    /// What has more gets more groups, so that the platform can cut it ([`LaunchList::work`]).
    fn max_launch_work(&self) -> u64 {
        u64::MAX
    }

    /// Whether the device still works. Any thread, at any time.
    fn status(&self) -> &DeviceStatus;

    /// The segments of the device. Like the status, they belong to the hardware.
    fn segments(&self) -> &Arc<Segments<Self::Segment>>;

    /// Writes to the log, if one was asked for. For slow paths only.
    fn log(&self, text: impl FnOnce() -> String);

    /// Prepares the calling thread for other calls, and for dropping what they return. The second call costs nothing.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    fn enter(&self) -> Result<(), Failure>;

    /// Uninitialized memory of the device, without [`enter`](Self::enter).
    ///
    /// # Errors
    ///
    /// The error of the driver; for a lack of memory, [`Failure::out_of_memory`] is set.
    fn allocate(&self, bytes: usize) -> Result<Self::Memory, Failure>;

    /// Zeroed memory that the host reaches, without [`enter`](Self::enter).
    ///
    /// # Errors
    ///
    /// As for [`allocate`](Self::allocate).
    fn allocate_host(&self, bytes: usize) -> Result<Self::HostMemory, Failure>;

    /// Memory of the host for the device to read where it lies, and how far behind its first byte the given bytes begin; without
    /// [`enter`](Self::enter). `None` if that cannot be.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    ///
    /// # Safety
    ///
    /// As long as the owner lives, there are so many bytes, and nobody writes them.
    unsafe fn wrap(
        &self,
        _first: NonNull<u8>,
        _bytes: usize,
        _owner: HostOwner,
    ) -> Result<Option<(Self::Memory, usize)>, Failure> {
        Ok(None)
    }

    /// A segment holds weights from here on: what is in it will not change.
    fn settled(&self, _segment: Self::Segment) {}

    /// A kernel, compiled once per key; other threads that need it wait for that key only.
    ///
    /// # Errors
    ///
    /// The error of the compiler or the driver. The next call tries again.
    fn kernel(&self, key: Key) -> Result<Cached<'static, Self::Kernel>>;

    /// A kernel that was compiled before.
    fn known(&self, key: Key) -> Option<Cached<'static, Self::Kernel>> {
        self.kernel(key).ok()
    }

    /// Compiles kernels together, as far as that works; [`kernel`](Self::kernel) says what is wrong with the others.
    fn prepare(&self, _keys: &[Key]) {}

    /// Products from earlier calls of [`product`](Self::product) will not be launched anymore. Called before a batch
    /// is lowered.
    fn forget_products(&self, encoder: &mut Self::Encoder);

    /// A matrix product by the platform's library, and the part of the epilogue that must still be applied to its
    /// result in place. `None` if the library cannot do it, or would round a result twice.
    ///
    /// # Errors
    ///
    /// The error of the library.
    fn product(
        &self,
        encoder: &mut Self::Encoder,
        operands: &ProductOperands<Binding<Self::Segment>>,
    ) -> Result<Option<(Self::Product, Epilogue)>, Failure>;

    /// A queue for batches of at most `commands` Commands, which is an even number, and its encoder.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    fn new_queue(&self, commands: usize) -> Result<(Self::Queue, Self::Encoder), Failure>;

    /// Everything given to a queue is through, and nothing will be given to it: its objects may serve another. Its count of
    /// completed batches may be asked for all the same.
    fn close(&self, _queue: &Self::Queue) {}

    /// The fault record that kernels of a queue write to; see [`millstream_kernels`]. It is zero when a batch begins:
    /// the end of each batch reads and clears it.
    fn fault_record(&self, queue: &Self::Queue) -> Binding<Self::Segment>;

    /// Makes `later` wait for all work that `earlier` has been given so far.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    fn order(
        &self,
        earlier: &Self::Queue,
        later: &Self::Queue,
        encoder: &mut Self::Encoder,
    ) -> Result<(), Failure>;

    /// How many batches of a queue have completed: launches that ended with [`Finish`](crate::Item::Finish). What
    /// they wrote for the host is visible. Threads poll this, so it takes a load or two. Any thread, without
    /// [`enter`](Self::enter).
    fn completed(&self, queue: &Self::Queue) -> u64;

    /// The fault codes of the batch that completed as number `tick`, one per Command, if it had any fault. The batch
    /// has completed, and counts as in flight until its codes are read. At most
    /// [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT) batches are in flight. Without [`enter`](Self::enter).
    fn faults<'a>(&self, queue: &'a Self::Queue, tick: u64) -> Option<&'a [AtomicU32]>;

    /// Why the batch that was number `tick` to complete was not run by the device, or not whole, if so. Asked as
    /// [`faults`](Self::faults) is.
    fn failure(&self, _queue: &Self::Queue, _tick: u64) -> Option<Failure> {
        None
    }

    /// Blocks until `tick` batches of a queue are through, or the time is over, or earlier. Without
    /// [`enter`](Self::enter).
    fn wait(&self, _queue: &Self::Queue, _tick: u64, _timeout: Duration) {}

    /// Asks the driver whether the hardware of a queue still works. Never blocks.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    fn probe(&self, queue: &Self::Queue) -> Result<(), Failure>;

    /// Converts a time of the device's clock to the host's clock, in nanoseconds. Without [`enter`](Self::enter).
    fn host_ns(&self, device_ns: u64) -> u64;

    /// Gives all items of a list to a queue, in order.
    ///
    /// # Safety
    ///
    /// Every place that the list names stays valid until the batch has run.
    ///
    /// # Errors
    ///
    /// The first item that failed; those after it are not launched.
    unsafe fn launch(
        &self,
        list: &LaunchList<Self>,
        queue: &Self::Queue,
        encoder: &mut Self::Encoder,
    ) -> Result<(), LaunchFailure>;

    /// Captures a list, so that it can be launched again and again. Nothing runs.
    ///
    /// # Safety
    ///
    /// As for [`launch`](Self::launch), for every [`replay`](Self::replay).
    ///
    /// # Errors
    ///
    /// The error of the driver. The list can still be launched.
    unsafe fn capture(
        &self,
        list: &LaunchList<Self>,
        queue: &Self::Queue,
        encoder: &mut Self::Encoder,
    ) -> Result<Self::Captured, Failure>;

    /// Launches a captured list, on the queue that it was captured for.
    ///
    /// # Errors
    ///
    /// The error of the driver. Then nothing was launched.
    fn replay(
        &self,
        captured: &mut Self::Captured,
        queue: &Self::Queue,
        encoder: &mut Self::Encoder,
    ) -> Result<(), Failure>;
}

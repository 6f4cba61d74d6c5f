//! Memory: buffers that host and GPU share.
//!
//! All memory is of the shared storage mode: the GPUs of Apple silicon have no memory of their own. Buffers are untracked:
//! order comes from barriers and events.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream_core::HostOwner;
use millstream_gpu::{Failure, HostVisible, Memory};
use objc2_metal::{MTLBuffer, MTLDevice, MTLResourceOptions};

use crate::failure;
use crate::gpu::Gpu;
use crate::objects::{AnyThread, Kept, Obj, Raw, RawBufferObject, pooled};

/// How buffers are made.
pub(crate) const OPTIONS: MTLResourceOptions = MTLResourceOptions(
    MTLResourceOptions::StorageModeShared.0 | MTLResourceOptions::HazardTrackingModeUntracked.0,
);

/// Sizes are multiples of a page of Apple silicon.
const PAGE: usize = 16 << 10;
/// How long an allocation waits for memory that the GPU is about to give up.
const WAIT_FOR_MEMORY: Duration = Duration::from_secs(1);

/// Names for memory, each used once: what was prepared with one buffer is never replayed for another.
static NEXT_ADDRESS: AtomicUsize = AtomicUsize::new(1 << 46);

/// A buffer. Dropping it defers its release.
pub(crate) struct MetalMemory {
    gpu: &'static Gpu,
    /// Taken out by `drop`, so that nothing here outlives what is deferred.
    buffer: ManuallyDrop<AnyThread<Obj<dyn MTLBuffer>>>,
    address: usize,
    bytes: usize,
    host: NonNull<u8>,
    /// What the GPU may use is counted, and what the host keeps for it is not.
    counted: usize,
    /// What else must outlive it.
    keep: Option<HostOwner>,
}

// SAFETY: buffers may be used by any thread, and the pointer is one into the buffer.
unsafe impl Send for MetalMemory {}
// SAFETY: as above; what is done through the pointer is the users' to order.
unsafe impl Sync for MetalMemory {}

impl MetalMemory {
    /// Memory of that size, which begins as garbage.
    ///
    /// # Errors
    ///
    /// A lack of memory.
    pub fn new(gpu: &'static Gpu, bytes: usize) -> Result<Self, Failure> {
        let whole = bytes.max(1).next_multiple_of(PAGE);
        if whole > gpu.max_buffer {
            return Err(lacking(bytes, "a buffer has at most", gpu.max_buffer));
        }
        gpu.reserve(whole, WAIT_FOR_MEMORY).map_err(|limit| lacking(bytes, "it has", limit))?;
        let make = || pooled(|| gpu.device.newBufferWithLength_options(whole, OPTIONS));
        // What is released later may be what is lacking.
        let Some(buffer) = gpu.deferred.retry(WAIT_FOR_MEMORY, make) else {
            gpu.release(whole);
            return Err(lacking(bytes, "of", gpu.working_set));
        };
        let host = buffer.contents().cast();
        Ok(Self::with(gpu, buffer, host, whole, whole, None))
    }

    /// The pages of the host that hold some bytes, for the GPU to read where they lie; and how far behind the first page they
    /// begin. `None` if a buffer cannot have as many, or Metal does not want them.
    ///
    /// # Errors
    ///
    /// A lack of memory: what the GPU reads counts, wherever it lies.
    ///
    /// # Safety
    ///
    /// As long as the owner lives, there are so many bytes, and nobody writes them.
    pub unsafe fn wrap(
        gpu: &'static Gpu,
        first: NonNull<u8>,
        bytes: usize,
        owner: HostOwner,
    ) -> Result<Option<(Self, usize)>, Failure> {
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE);
        let offset = first.as_ptr().addr() % page;
        let whole = (offset + bytes).next_multiple_of(page);
        if whole > gpu.max_buffer {
            return Ok(None);
        }
        gpu.reserve(whole, WAIT_FOR_MEMORY).map_err(|limit| lacking(bytes, "it has", limit))?;
        // SAFETY: a page that holds one of the bytes.
        let start = unsafe { first.sub(offset) };
        // SAFETY: every one of these pages holds some of the bytes, so all are there until the owner goes, which the
        // memory keeps. The GPU only reads them.
        let made = pooled(|| unsafe {
            gpu.device.newBufferWithBytesNoCopy_length_options_deallocator(
                start.cast(),
                whole,
                OPTIONS,
                None,
            )
        });
        let Some(buffer) = made else {
            gpu.release(whole);
            return Ok(None);
        };
        Ok(Some((Self::with(gpu, buffer, start, whole, whole, Some(owner)), offset)))
    }

    fn with(
        gpu: &'static Gpu,
        buffer: Obj<dyn MTLBuffer>,
        host: NonNull<u8>,
        bytes: usize,
        counted: usize,
        keep: Option<HostOwner>,
    ) -> Self {
        // Neighbors do not touch, so that no operand lies in two.
        let address =
            NEXT_ADDRESS.fetch_add(bytes.next_multiple_of(PAGE) + PAGE, Ordering::Relaxed);
        let buffer = ManuallyDrop::new(AnyThread(buffer));
        let memory = Self { gpu, buffer, address, bytes, host, counted, keep };
        gpu.residency.add(&memory.buffer, bytes);
        memory
    }

    /// The buffer.
    pub fn raw(&self) -> RawBufferObject {
        Raw::of(&self.buffer)
    }
}

impl Drop for MetalMemory {
    fn drop(&mut self) {
        let (gpu, counted) = (self.gpu, self.counted);
        gpu.residency.remove(&self.buffer);
        // SAFETY: nobody has the memory any more.
        let AnyThread(buffer) = unsafe { ManuallyDrop::take(&mut self.buffer) };
        // They go in this order: a set keeps the buffer, which has the pages, and then the bytes are free.
        let removed = Removed { gpu };
        let given_back = Given { gpu, counted };
        gpu.deferred.defer((removed, Kept::new(buffer), self.keep.take(), given_back));
    }
}

/// What was removed from a residency set, which keeps it until its next commit. An idle device has no next submit, so what is
/// released sees to it.
struct Removed {
    gpu: &'static Gpu,
}

impl Drop for Removed {
    fn drop(&mut self) {
        self.gpu.residency.commit();
    }
}

/// Bytes that are given back when the GPU is through with them.
struct Given {
    gpu: &'static Gpu,
    counted: usize,
}

impl Drop for Given {
    fn drop(&mut self) {
        self.gpu.release(self.counted);
    }
}

#[cold]
fn lacking(bytes: usize, what: &str, limit: usize) -> Failure {
    let text = format!("{bytes} bytes, {what} {limit}");
    let failure = Failure::new("newBufferWithLength", "nil", text);
    Failure { out_of_memory: true, ..failure }
}

impl Memory for MetalMemory {
    type Segment = RawBufferObject;

    fn address(&self) -> usize {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn segment(&self) -> RawBufferObject {
        self.raw()
    }

    fn visible(&self) -> Option<NonNull<u8>> {
        Some(self.host)
    }
}

/// Memory of the same kind that the host fills and reads: it begins as zeros.
pub(crate) struct HostMemory(MetalMemory);

impl HostMemory {
    /// # Errors
    ///
    /// A lack of memory.
    pub fn new(gpu: &'static Gpu, bytes: usize) -> Result<Self, Failure> {
        let memory = MetalMemory::new(gpu, bytes)?;
        // SAFETY: the buffer has so many bytes, and nobody else knows it yet.
        unsafe { memory.host.as_ptr().write_bytes(0, memory.bytes) };
        Ok(Self(memory))
    }
}

impl Memory for HostMemory {
    type Segment = RawBufferObject;

    fn address(&self) -> usize {
        self.0.address
    }

    fn bytes(&self) -> usize {
        self.0.bytes
    }

    fn segment(&self) -> RawBufferObject {
        self.0.raw()
    }
}

// SAFETY: the buffer has so many bytes, which are initialized, begins on a page, and lives as long as the value.
unsafe impl HostVisible for HostMemory {
    fn host(&self) -> NonNull<u8> {
        self.0.host
    }
}

/// The failure of an object that a command buffer needs and that cannot be had.
pub(crate) fn object<T>(made: Option<T>, call: &'static str, what: &str) -> Result<T, Failure> {
    made.ok_or_else(|| failure::nothing(call, what))
}

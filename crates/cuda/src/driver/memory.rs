//! Memory on the device, and host memory that the device can reach.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdeviceptr};
use millstream_gpu::{Binding, Failure, HostVisible, Memory};

use super::{Context, check};

/// Memory by address: where the device sees it, and where the host does if it does at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CudaSegment {
    pub device: CUdeviceptr,
    /// 0 if the host does not.
    pub host: usize,
}

impl CudaSegment {
    /// The address of a place as the device sees it.
    pub fn address(place: Binding<Self>) -> CUdeviceptr {
        place.segment.device + place.offset as CUdeviceptr
    }

    /// The address of a place as the host sees it.
    pub fn host_address(place: Binding<Self>) -> Option<usize> {
        (place.segment.host != 0).then(|| place.segment.host + place.offset)
    }
}

/// Memory on the device.
pub(crate) struct DeviceMemory {
    address: CUdeviceptr,
    bytes: usize,
    context: Arc<Context>,
}

impl DeviceMemory {
    /// Uninitialised memory, aligned to at least 256 bytes.
    ///
    /// # Errors
    ///
    /// What the driver said; a lack of memory is told by [`Failure::out_of_memory`].
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Failure> {
        context.make_current()?;
        let mut address = 0;
        // SAFETY: the context is current, and `address` is a place for the result.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, bytes.max(1)) })?;
        Ok(Self { address, bytes, context: Arc::clone(context) })
    }

    /// The same, filled with zeros when this returns.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn zeroed(context: &Arc<Context>, bytes: usize) -> Result<Self, Failure> {
        let memory = Self::new(context, bytes)?;
        // SAFETY: the memory was just allocated with that size. The call waits for the device.
        check("cuMemsetD8", unsafe { sys::cuMemsetD8_v2(memory.address, 0, bytes.max(1)) })?;
        Ok(memory)
    }
}

impl Memory for DeviceMemory {
    type Segment = CudaSegment;

    fn address(&self) -> usize {
        self.address as usize
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn segment(&self) -> CudaSegment {
        CudaSegment { device: self.address, host: 0 }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.context.make_current().is_ok() {
            // SAFETY: allocated above and freed only here. The driver waits for work that may use it. A
            // failure (a lost device) leaves nothing to do.
            unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// Host memory that the device reads and writes directly.
///
/// It is ours and only registered with the driver, so that a thread that looks at it while the process
/// ends, and the driver with it, still finds it there. Where registering does not work (some sandboxes),
/// the driver's own memory does.
pub(crate) struct Pinned {
    host: NonNull<u8>,
    device: CUdeviceptr,
    layout: Layout,
    registered: bool,
    context: Arc<Context>,
}

// SAFETY: plain memory; who may touch it when is up to the owner.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

const PAGE: usize = 4096;

fn lack(bytes: usize) -> Failure {
    let text = format!("{bytes} bytes of host memory");
    let failure = Failure::new("alloc", "no memory", text);
    Failure { out_of_memory: true, ..failure }
}

/// Whole pages of our own, registered with the driver.
fn register(layout: Layout) -> Result<NonNull<u8>, Failure> {
    // SAFETY: the size is not zero.
    let host = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| lack(layout.size()))?;
    let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
    // SAFETY: the memory was just allocated with that size, in pages of its own.
    let status = unsafe { sys::cuMemHostRegister_v2(host.as_ptr().cast(), layout.size(), flags) };
    check("cuMemHostRegister", status).inspect_err(|_| {
        // SAFETY: allocated above with this layout, and known to nobody.
        unsafe { dealloc(host.as_ptr(), layout) };
    })?;
    Ok(host)
}

/// Memory of the driver.
fn allocate(bytes: usize) -> Result<NonNull<u8>, Failure> {
    let mut host = std::ptr::null_mut();
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    // SAFETY: the context is current, and `host` is a place for the result.
    check("cuMemHostAlloc", unsafe { sys::cuMemHostAlloc(&mut host, bytes, flags) })?;
    let host = NonNull::new(host.cast::<u8>()).ok_or_else(|| lack(bytes))?;
    // SAFETY: `bytes` bytes were just allocated there.
    unsafe { host.as_ptr().write_bytes(0, bytes) };
    Ok(host)
}

impl Pinned {
    /// Zeroed memory, in whole pages.
    ///
    /// # Errors
    ///
    /// No memory, or what the driver said.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Failure> {
        context.make_current()?;
        let layout = Layout::from_size_align(bytes.max(1).next_multiple_of(PAGE), PAGE)
            .map_err(|_| lack(bytes))?;
        let (host, registered) = match register(layout) {
            Ok(host) => (host, true),
            Err(failure) if failure.sticky || failure.out_of_memory => return Err(failure),
            Err(_) => (allocate(layout.size())?, false),
        };
        let context = Arc::clone(context);
        let mut pinned = Self { host, device: 0, layout, registered, context };
        // SAFETY: made with a device mapping just now.
        check("cuMemHostGetDevicePointer", unsafe {
            sys::cuMemHostGetDevicePointer_v2(&mut pinned.device, host.as_ptr().cast(), 0)
        })?;
        Ok(pinned)
    }
}

impl Memory for Pinned {
    type Segment = CudaSegment;

    fn address(&self) -> usize {
        self.device as usize
    }

    fn bytes(&self) -> usize {
        self.layout.size()
    }

    fn segment(&self) -> CudaSegment {
        CudaSegment { device: self.device, host: self.host.as_ptr().addr() }
    }
}

// SAFETY: zeroed when it is made, in whole pages, and registered or allocated for as long as the value lives.
unsafe impl HostVisible for Pinned {
    fn host(&self) -> NonNull<u8> {
        self.host
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.context.make_current().is_err() {
            return;
        }
        let host = self.host.as_ptr();
        if !self.registered {
            // SAFETY: allocated by the driver, and freed only here.
            unsafe { sys::cuMemFreeHost(host.cast()) };
            return;
        }
        // SAFETY: registered in `register`, and unregistered only here.
        let status = unsafe { sys::cuMemHostUnregister(host.cast()) };
        // Memory that the driver may still write to is rather leaked than given back.
        if check("cuMemHostUnregister", status).is_ok() {
            // SAFETY: allocated with this layout in `register`, and freed only here.
            unsafe { dealloc(host, self.layout) };
        }
    }
}

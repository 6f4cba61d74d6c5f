//! Buffers, and the memory behind them.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::heap::Heap;
use crate::foundation::{self, Text};
use crate::objc::{BlockRef, Id, Raw, Sel, This, class, method};
use crate::rules::{Rule, violation};

/// Apple silicon has pages of 16 KB.
pub const PAGE: usize = 16384;

/// `MTLResourceOptions`, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Options(pub usize);

impl Options {
    pub fn is_private(self) -> bool {
        self.0 >> 4 & 15 == 2
    }

    pub fn storage_mode(self) -> usize {
        self.0 >> 4 & 15
    }

    /// What Metal orders by itself, encoder after encoder. Buffers of heaps are not, unless they say so.
    pub fn is_tracked(self, on_heap: bool) -> bool {
        match self.0 >> 8 & 3 {
            0 => !on_heap,
            mode => mode == 2,
        }
    }
}

/// Bytes that the GPU sees. They begin as garbage.
pub struct Memory {
    address: usize,
    bytes: usize,
    owner: Owner,
}

enum Owner {
    /// Mapped by the driver.
    Mapped,
    /// The caller's own, with what to call when the GPU needs it no more.
    Caller(Option<BlockRef>),
    /// Part of a heap.
    Heap(#[allow(dead_code)] Arc<Memory>),
}

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// The bytes of all buffers and heaps.
pub fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

impl Memory {
    pub fn map(bytes: usize) -> Option<Arc<Self>> {
        let whole = bytes.next_multiple_of(PAGE);
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new pages.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), whole, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: pages that were just mapped.
        unsafe { address.cast::<u8>().write_bytes(0xa5, whole) };
        ALLOCATED.fetch_add(bytes, Ordering::Relaxed);
        Some(Arc::new(Self { address: address.addr(), bytes, owner: Owner::Mapped }))
    }

    pub fn of_caller(address: usize, bytes: usize, deallocator: Option<BlockRef>) -> Arc<Self> {
        ALLOCATED.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(Self { address, bytes, owner: Owner::Caller(deallocator) })
    }

    pub fn of_heap(heap: &Arc<Memory>, offset: usize, bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            address: heap.address + offset,
            bytes,
            owner: Owner::Heap(Arc::clone(heap)),
        })
    }

    fn uncount(&self) {
        ALLOCATED.fetch_sub(self.bytes, Ordering::Relaxed);
    }

    /// Whether the pages of the caller's are still there, which the system knows.
    fn check_pages(&self) {
        let start = self.address / 4096 * 4096;
        let bytes = self.address + self.bytes - start;
        let mut resident = vec![0u8; bytes.div_ceil(4096)];
        // SAFETY: asks about pages, which need not be there, and there is a byte for each.
        let asked = unsafe { libc::mincore(start as *mut c_void, bytes, resident.as_mut_ptr()) };
        if asked != 0 {
            violation(Rule::NoCopyPagesGone, format_args!("a buffer of {} bytes", self.bytes));
        }
    }

    pub fn address(&self) -> usize {
        self.address
    }

    pub fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.owner {
            // SAFETY: mapped with this size, and nobody uses it any more.
            Owner::Mapped => unsafe {
                _ = libc::munmap(self.address as *mut c_void, self.bytes.next_multiple_of(PAGE))
            },
            Owner::Caller(block) => {
                self.check_pages();
                let Some(block) = block else { return self.uncount() };
                type Deallocator =
                    unsafe extern "C" fn(*mut crate::objc::Block, *mut c_void, usize);
                // SAFETY: a block of this signature, as `newBufferWithBytesNoCopy` takes it.
                unsafe {
                    let call = std::mem::transmute::<*const (), Deallocator>(block.invoke());
                    call(block.as_ptr(), self.address as *mut c_void, self.bytes);
                }
            }
            Owner::Heap(_) => return,
        }
        self.uncount();
    }
}

/// `MTLBuffer`.
pub struct Buffer {
    pub memory: Arc<Memory>,
    pub options: Options,
    /// Whether Metal orders its uses.
    pub tracked: bool,
    /// Command buffers that use it and are not through.
    pub in_flight: Arc<AtomicUsize>,
    /// Keeps the heap that it lies in.
    #[expect(dead_code, reason = "held, not read")]
    heap: Option<Id<Heap>>,
    pub heap_offset: usize,
    label: Mutex<Option<String>>,
}

class!(
    /// The class of buffers.
    BUFFER, "MillstreamBuffer", Buffer,
    [
        method!(c"contents", c"^v@:", contents, fn(This<Buffer>, Sel) -> *mut c_void),
        method!(c"length", c"Q@:", length, fn(This<Buffer>, Sel) -> usize),
        method!(c"allocatedSize", c"Q@:", allocated_size, fn(This<Buffer>, Sel) -> usize),
        method!(c"gpuAddress", c"Q@:", gpu_address, fn(This<Buffer>, Sel) -> u64),
        method!(c"storageMode", c"Q@:", storage_mode, fn(This<Buffer>, Sel) -> usize),
        method!(c"resourceOptions", c"Q@:", resource_options, fn(This<Buffer>, Sel) -> usize),
        method!(c"hazardTrackingMode", c"Q@:", tracking, fn(This<Buffer>, Sel) -> usize),
        method!(c"heapOffset", c"Q@:", heap_offset, fn(This<Buffer>, Sel) -> usize),
        method!(c"label", c"@@:", label, fn(This<Buffer>, Sel) -> Raw),
        method!(c"setLabel:", c"v@:@", set_label, fn(This<Buffer>, Sel, Option<This<Text>>)),
    ]
);

impl Buffer {
    pub fn new(
        memory: Arc<Memory>,
        options: Options,
        heap: Option<Id<Heap>>,
        heap_offset: usize,
    ) -> Self {
        let tracked = options.is_tracked(heap.is_some());
        Self {
            memory,
            options,
            tracked,
            in_flight: Arc::default(),
            heap,
            heap_offset,
            label: Mutex::default(),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.in_flight.load(Ordering::Acquire) > 0 {
            violation(
                Rule::BufferReleasedInFlight,
                format_args!("a buffer of {} bytes", self.memory.len()),
            );
        }
    }
}

unsafe extern "C" fn contents(this: This<Buffer>, _: Sel) -> *mut c_void {
    if this.options.is_private() {
        violation(Rule::PrivateContents, "contents of a private buffer");
        return std::ptr::null_mut();
    }
    this.memory.address() as *mut c_void
}

unsafe extern "C" fn length(this: This<Buffer>, _: Sel) -> usize {
    this.memory.len()
}

unsafe extern "C" fn allocated_size(this: This<Buffer>, _: Sel) -> usize {
    this.memory.len().next_multiple_of(PAGE)
}

unsafe extern "C" fn gpu_address(this: This<Buffer>, _: Sel) -> u64 {
    this.memory.address() as u64
}

unsafe extern "C" fn storage_mode(this: This<Buffer>, _: Sel) -> usize {
    this.options.storage_mode()
}

unsafe extern "C" fn resource_options(this: This<Buffer>, _: Sel) -> usize {
    this.options.0
}

unsafe extern "C" fn tracking(this: This<Buffer>, _: Sel) -> usize {
    if this.tracked { 2 } else { 1 }
}

unsafe extern "C" fn heap_offset(this: This<Buffer>, _: Sel) -> usize {
    this.heap_offset
}

unsafe extern "C" fn label(this: This<Buffer>, _: Sel) -> Raw {
    foundation::label(&this.label)
}

unsafe extern "C" fn set_label(this: This<Buffer>, _: Sel, label: Option<This<Text>>) {
    foundation::set_label(&this.label, label);
}

//! Memory of a fake GPU: host memory behind names.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Fake, FakeSegment};
use crate::failure::Failure;
use crate::platform::{HostVisible, Memory};

/// The initial contents of device memory.
const GARBAGE: u8 = 0xA5;
/// Addresses are multiples of this.
const ALIGNMENT: usize = 256;

/// Bytes that launches reach by a segment.
pub(super) struct Allocation {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory. Launches and their order decide who touches it when.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    fn new(bytes: usize, zeroed: bool) -> Result<Arc<Self>, Failure> {
        let lack = || Failure {
            out_of_memory: true,
            ..Failure::new("allocate", "NO_MEMORY", format!("{bytes} bytes"))
        };
        let layout = Layout::from_size_align(bytes.max(8), ALIGNMENT).map_err(|_| lack())?;
        // SAFETY: the size is not zero.
        let start = unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        let start = NonNull::new(start).ok_or_else(lack)?;
        if !zeroed {
            // SAFETY: just allocated with that size.
            unsafe { start.as_ptr().write_bytes(GARBAGE, layout.size()) };
        }
        Ok(Arc::new(Self { start, layout }))
    }

    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// The address at an offset in bytes. The caller has checked the offset against the size.
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// An allocation with its names, which exist as long as this value.
struct Named {
    platform: Fake,
    allocation: Arc<Allocation>,
    segment: FakeSegment,
    address: usize,
}

impl Named {
    fn new(platform: &Fake, allocation: Arc<Allocation>) -> Self {
        let state = &platform.0.state;
        let segment = FakeSegment(state.next_segment.fetch_add(1, Ordering::Relaxed));
        // There are gaps between allocations, so that an overrun is noticed.
        let room = allocation.bytes().next_multiple_of(ALIGNMENT) + ALIGNMENT;
        let address = state.next_address.fetch_add(room, Ordering::Relaxed);
        state.add_allocation(segment, Arc::clone(&allocation));
        Self { platform: platform.clone(), allocation, segment, address }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.platform.0.state.remove_allocation(self.segment);
    }
}

/// Memory of a fake GPU.
pub struct FakeMemory {
    named: Named,
    bytes: usize,
}

/// Memory that host and fake GPU reach.
pub struct FakeHostMemory(Named);

impl FakeMemory {
    pub(super) fn new(platform: &Fake, bytes: usize) -> Result<Self, Failure> {
        let state = &platform.0.state;
        let limit = platform.0.options.memory_bytes;
        let taken = state.allocated.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= limit)
        });
        if taken.is_err() {
            let failure = Failure::new("allocate", "NO_MEMORY", format!("{bytes} bytes"));
            return Err(Failure { out_of_memory: true, ..failure });
        }
        let allocation = Allocation::new(bytes, false).inspect_err(|_| {
            state.allocated.fetch_sub(bytes, Ordering::Relaxed);
        })?;
        Ok(Self { named: Named::new(platform, allocation), bytes })
    }
}

impl Drop for FakeMemory {
    fn drop(&mut self) {
        self.named.platform.0.state.allocated.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl FakeHostMemory {
    pub(super) fn new(platform: &Fake, bytes: usize) -> Result<Self, Failure> {
        Ok(Self(Named::new(platform, Allocation::new(bytes, true)?)))
    }
}

impl Memory for FakeMemory {
    type Segment = FakeSegment;

    fn address(&self) -> usize {
        self.named.address
    }

    fn bytes(&self) -> usize {
        self.named.allocation.bytes()
    }

    fn segment(&self) -> FakeSegment {
        self.named.segment
    }

    fn visible(&self) -> Option<NonNull<u8>> {
        self.named.platform.0.options.unified.then_some(self.named.allocation.start)
    }
}

impl Memory for FakeHostMemory {
    type Segment = FakeSegment;

    fn address(&self) -> usize {
        self.0.address
    }

    fn bytes(&self) -> usize {
        self.0.allocation.bytes()
    }

    fn segment(&self) -> FakeSegment {
        self.0.segment
    }
}

// SAFETY: the allocation is zeroed, aligned, and lives as long as the value.
unsafe impl HostVisible for FakeHostMemory {
    fn host(&self) -> NonNull<u8> {
        self.0.allocation.start
    }
}

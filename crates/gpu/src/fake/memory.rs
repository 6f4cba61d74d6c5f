//! Memory of a fake GPU: of the host, behind names.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Fake, FakeSegment};
use crate::failure::Failure;
use crate::platform::{HostVisible, Memory};

/// What memory of the device is full of at first.
const GARBAGE: u8 = 0xA5;
/// Addresses are multiples of this.
const ALIGNMENT: usize = 256;

/// Bytes that launches reach by a segment.
pub(super) struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory; who may touch it when is up to launches and their order.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
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

    /// A place so many bytes from the beginning, which lie in it.
    pub fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: whoever asks has compared it with the size.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// A block with its names, which are known as long as this lives.
struct Named {
    platform: Fake,
    block: Arc<Block>,
    segment: FakeSegment,
    address: usize,
}

impl Named {
    fn new(platform: &Fake, block: Arc<Block>) -> Self {
        let state = &platform.0.state;
        let segment = FakeSegment(state.next_segment.fetch_add(1, Ordering::Relaxed));
        // Neighbors do not touch, so that an overrun is noticed.
        let room = block.bytes().next_multiple_of(ALIGNMENT) + ALIGNMENT;
        let address = state.next_address.fetch_add(room, Ordering::Relaxed);
        state.add_block(segment, Arc::clone(&block));
        Self { platform: platform.clone(), block, segment, address }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.platform.0.state.remove_block(self.segment);
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
        let block = Block::new(bytes, false).inspect_err(|_| {
            state.allocated.fetch_sub(bytes, Ordering::Relaxed);
        })?;
        Ok(Self { named: Named::new(platform, block), bytes })
    }
}

impl Drop for FakeMemory {
    fn drop(&mut self) {
        self.named.platform.0.state.allocated.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl FakeHostMemory {
    pub(super) fn new(platform: &Fake, bytes: usize) -> Result<Self, Failure> {
        Ok(Self(Named::new(platform, Block::new(bytes, true)?)))
    }
}

impl Memory for FakeMemory {
    type Segment = FakeSegment;

    fn address(&self) -> usize {
        self.named.address
    }

    fn bytes(&self) -> usize {
        self.named.block.bytes()
    }

    fn segment(&self) -> FakeSegment {
        self.named.segment
    }
}

impl Memory for FakeHostMemory {
    type Segment = FakeSegment;

    fn address(&self) -> usize {
        self.0.address
    }

    fn bytes(&self) -> usize {
        self.0.block.bytes()
    }

    fn segment(&self) -> FakeSegment {
        self.0.segment
    }
}

// SAFETY: the block is zeroed, aligned, and lives as long as the value.
unsafe impl HostVisible for FakeHostMemory {
    fn host(&self) -> NonNull<u8> {
        self.0.block.start
    }
}

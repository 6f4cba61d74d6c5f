//! The memory of one stream: slabs taken from the device, and the free blocks carved from them.
//!
//! Guarded by the stream's own lock. A block is free for the home stream as soon as its last handle is dropped,
//! because later Commands of that stream run later. Only uses by other streams defer it.
//!
//! Devices replay batches that they recognize by their addresses, so a call that repeats an earlier one should get
//! the same blocks. The cache therefore takes the free block at the lowest address, in whatever order the blocks
//! came back. Where threads share the stream, it prefers a block that the thread had before, then one that no
//! thread had.

use std::ptr::NonNull;

use super::Block;
use super::size_class::{WRAPPED, class_bytes};
use crate::Segment;
use crate::stream::StreamInner;

#[derive(Default)]
pub(crate) struct StreamCache {
    /// Free blocks by class.
    free: Vec<Vec<FreeBlock>>,
    /// Blocks without holders that another stream may still be using.
    deferred: Vec<NonNull<Block>>,
    /// Blocks without holders of memory that a caller keeps, to be freed.
    wrapped: Vec<NonNull<Block>>,
    slabs: Vec<Option<Slab>>,
    /// The slab of each class that still has room to carve.
    open: Vec<Option<u32>>,
    in_use: usize,
    peak: usize,
    cached: usize,
    deferred_bytes: usize,
}

/// A free block, with what decides whether it is taken.
#[derive(Clone, Copy)]
struct FreeBlock {
    address: usize,
    /// The thread that had it last.
    thread: u32,
    pointer: NonNull<Block>,
}

/// How many free blocks of a class are considered, the last that came back: enough for the live values of a model,
/// and few enough to scan.
const CANDIDATES: usize = 64;

struct Slab {
    segment: Segment,
    class: usize,
    blocks: usize,
    carved: usize,
    free: usize,
    /// What home had recorded when a block last came back: Commands up to there may use the slab.
    last_use: u64,
}

// SAFETY: the blocks pointed to are owned by the cache while they are in it, and `Block` may be used
// from any thread.
unsafe impl Send for StreamCache {}

/// What one stream holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamMemory {
    /// The stream's number.
    pub stream: u32,
    /// Blocks that live buffers hold.
    pub in_use: usize,
    /// The highest that `in_use` ever was.
    pub peak: usize,
    /// Blocks in free lists.
    pub cached: usize,
    /// Blocks that wait for another stream to pass its last use.
    pub deferred: usize,
    /// Segments taken from the device.
    pub segments: usize,
}

impl StreamCache {
    /// Collects the blocks that were returned since the last call.
    pub fn collect(&mut self, home: &StreamInner) {
        for block in home.returns().take_all() {
            let bytes = self.bytes_of(block);
            self.in_use -= bytes;
            self.deferred_bytes += bytes;
            self.deferred.push(block);
        }
        if !self.deferred.is_empty() {
            self.reclaim();
        }
    }

    /// Moves blocks that every stream has passed to the free lists.
    fn reclaim(&mut self) {
        let mut index = 0;
        while index < self.deferred.len() {
            // SAFETY: the cache owns its deferred blocks.
            if unsafe { self.deferred[index].as_ref() }.forget_passed_uses() {
                let block = self.deferred.swap_remove(index);
                self.deferred_bytes -= self.bytes_of(block);
                self.add_free(block);
            } else {
                index += 1;
            }
        }
    }

    fn bytes_of(&self, block: NonNull<Block>) -> usize {
        // SAFETY: callers pass blocks that the cache owns or is taking in.
        class_bytes(unsafe { block.as_ref() }.class as usize)
    }

    fn add_free(&mut self, pointer: NonNull<Block>) {
        // SAFETY: the cache owns the block.
        let block = unsafe { pointer.as_ref() };
        let class = block.class as usize;
        if class == WRAPPED {
            self.wrapped.push(pointer);
        } else {
            if self.free.len() <= class {
                self.free.resize_with(class + 1, Vec::new);
            }
            let (address, thread) = (block.address, block.thread());
            self.free[class].push(FreeBlock { address, thread, pointer });
        }
        self.cached += class_bytes(class);
        if let Some(slab) = &mut self.slabs[block.slab as usize] {
            slab.free += 1;
            // The caller holds home's lock, so nothing is recorded meanwhile.
            slab.last_use = block.home.recorded();
        }
    }

    /// A free block of a class, or one carved from a slab that has room, for a thread.
    pub fn take(
        &mut self,
        class: usize,
        home: &'static StreamInner,
        thread: u32,
    ) -> Option<NonNull<Block>> {
        let shared = home.is_shared();
        let own = self.take_free(class, |block| !shared || block.thread == thread);
        let block = own
            .or_else(|| self.carve(class, home))
            .or_else(|| if shared { self.take_free(class, |_| true) } else { None })?;
        self.in_use += class_bytes(class);
        self.peak = self.peak.max(self.in_use);
        Some(block)
    }

    /// The free block at the lowest address among the last ones that fit.
    fn take_free(
        &mut self,
        class: usize,
        suits: impl Fn(&FreeBlock) -> bool,
    ) -> Option<NonNull<Block>> {
        let free = self.free.get_mut(class)?;
        let first = free.len().saturating_sub(CANDIDATES);
        let candidates = free[first..].iter().enumerate().filter(|(_, block)| suits(block));
        let (index, _) = candidates.min_by_key(|(_, block)| block.address)?;
        let pointer = free.swap_remove(first + index).pointer;
        // SAFETY: the cache owned the block until here.
        let slab = unsafe { pointer.as_ref() }.slab as usize;
        if let Some(slab) = &mut self.slabs[slab] {
            slab.free -= 1;
        }
        self.cached -= class_bytes(class);
        Some(pointer)
    }

    fn carve(&mut self, class: usize, home: &'static StreamInner) -> Option<NonNull<Block>> {
        let index = (*self.open.get(class)?)?;
        let slab = self.slabs[index as usize].as_mut()?;
        let offset = slab.carved * class_bytes(class);
        let address = slab.segment.address + offset;
        let host = slab.segment.host.map(|host| host + offset);
        slab.carved += 1;
        if slab.carved == slab.blocks {
            self.open[class] = None;
        }
        Some(Block::new(address, host, class, index as usize, home))
    }

    /// Adds a segment from the device to carve blocks of one class from.
    pub fn add_slab(&mut self, class: usize, segment: Segment) {
        let blocks = segment.bytes / class_bytes(class);
        let slab = Slab { segment, class, blocks, carved: 0, free: 0, last_use: 0 };
        let index = self.place(slab);
        if self.open.len() <= class {
            self.open.resize(class + 1, None);
        }
        self.open[class] = Some(index as u32);
    }

    /// How many segments there are for blocks of a class.
    pub fn slabs_of(&self, class: usize) -> usize {
        self.slabs.iter().flatten().filter(|slab| slab.class == class).count()
    }

    fn place(&mut self, slab: Slab) -> usize {
        match self.slabs.iter().position(Option::is_none) {
            Some(index) => {
                self.slabs[index] = Some(slab);
                index
            }
            None => {
                self.slabs.push(Some(slab));
                self.slabs.len() - 1
            }
        }
    }

    /// Adds memory that a caller keeps, as one block. It counts as no bytes of the device's budget.
    pub fn add_wrapped(&mut self, segment: Segment, home: &'static StreamInner) -> NonNull<Block> {
        let (address, host) = (segment.address, segment.host);
        let segment = Segment { bytes: 0, ..segment };
        let slab = Slab { segment, class: WRAPPED, blocks: 1, carved: 1, free: 0, last_use: 0 };
        let index = self.place(slab);
        Block::new(address, host, WRAPPED, index, home)
    }

    /// Takes out the segments without used blocks: no handles, and no Commands of the home stream that have not
    /// passed. Dropping them frees them.
    pub fn trim(&mut self, home: &StreamInner) -> Vec<Segment> {
        self.take_unused(home, |_| true)
    }

    /// The same, of memory that callers keep.
    pub fn trim_wrapped(&mut self, home: &StreamInner) -> Vec<Segment> {
        self.take_unused(home, |slab| slab.class == WRAPPED)
    }

    fn take_unused(&mut self, home: &StreamInner, which: impl Fn(&Slab) -> bool) -> Vec<Segment> {
        let unused = |slab: &mut Slab| {
            which(slab) && slab.free == slab.carved && home.progress().passed(slab.last_use)
        };
        let mut trimmed = Vec::new();
        for index in 0..self.slabs.len() {
            let Some(slab) = self.slabs[index].take_if(unused) else {
                continue;
            };
            if let Some(open) = self.open.get_mut(slab.class)
                && *open == Some(index as u32)
            {
                *open = None;
            }
            // The batches of a lost stream count as passed, but its queue may still use their blocks: these stay.
            // Checked after the slab was found to be unused, since a loss may have made it so.
            let lost = home.device_inner().has_lost_streams();
            let stays = |pointer: NonNull<Block>| {
                // SAFETY: the cache owns its free blocks.
                let of_slab = unsafe { pointer.as_ref() }.slab as usize == index;
                if of_slab && !lost {
                    // SAFETY: every block comes from `Box::leak`, nobody holds this one, and
                    // it leaves the list here.
                    drop(unsafe { Box::from_raw(pointer.as_ptr()) });
                }
                !of_slab
            };
            if slab.class == WRAPPED {
                self.wrapped.retain(|&pointer| stays(pointer));
            } else if let Some(free) = self.free.get_mut(slab.class) {
                free.retain(|block| stays(block.pointer));
            }
            self.cached -= slab.free * class_bytes(slab.class);
            trimmed.push(slab.segment);
        }
        trimmed
    }

    /// The points that deferred blocks wait for.
    pub fn deferred_points(&self) -> Vec<crate::Timepoint> {
        // SAFETY: the cache owns its deferred blocks.
        self.deferred.iter().flat_map(|block| unsafe { block.as_ref() }.foreign_uses()).collect()
    }

    pub fn stats(&self, stream: u32) -> StreamMemory {
        StreamMemory {
            stream,
            in_use: self.in_use,
            peak: self.peak,
            cached: self.cached,
            deferred: self.deferred_bytes,
            segments: self.slabs.iter().flatten().count(),
        }
    }
}

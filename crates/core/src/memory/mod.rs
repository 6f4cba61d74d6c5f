//! Memory: per-stream caches over segments of the device, within a budget.
//!
//! - Allocating takes the stream's own lock and nothing else, unless its cache has no block.
//! - Dropping the last handle of a buffer pushes its block on the home stream's return stack, from any
//!   thread, without a lock.
//! - Uses of settled blocks (weights) are not tracked. A dropped one is freed after a grace period: when every
//!   stream has passed what it had recorded by then.

mod arena;
mod block;
mod buffer;
mod cache;
mod host_pool;
mod in_place;
#[cfg(all(test, loom))]
mod loom_tests;
mod pending_frees;
mod reclaim;
mod settled;
mod size_class;
mod stats;
#[cfg(all(test, not(loom)))]
mod tests;
mod uses;

use std::ptr::NonNull;

pub(crate) use arena::ArenaLease;
pub(crate) use block::Block;
pub use buffer::Buffer;
pub(crate) use cache::StreamCache;
pub use cache::StreamMemory;
pub use host_pool::{HostBounds, HostPiece, HostPool};
pub use stats::MemoryStats;
pub(crate) use uses::Uses;

use self::arena::Arenas;
use self::pending_frees::PendingFrees;
use self::settled::Retired;
use crate::device::DeviceInner;
use crate::plan;
use crate::stream::{Recorder, StreamInner, thread_number};
use crate::sync::schedule::{AtomicUsize, Ordering};
use crate::{Backend, Error, Result, Segment};

/// The memory of a device, across its streams.
pub(crate) struct DeviceMemory {
    limit: usize,
    high: usize,
    low: usize,
    /// The size of a segment for many small blocks.
    slab: usize,
    /// That of a stream's first for blocks of a class.
    first_slab: usize,
    reserved: AtomicUsize,
    peak: AtomicUsize,
    retired: Retired,
    pending_frees: PendingFrees,
    arenas: Arenas,
}

impl DeviceMemory {
    pub fn new(limit: usize, high_percent: u32, low_percent: u32, backend: &dyn Backend) -> Self {
        let share = |percent: u32| (limit as u128 * u128::from(percent) / 100) as usize;
        // Every stream has its own slabs for every size that it uses. Empty slabs of all streams together must
        // not fill a small budget.
        let slab = (limit / 1024).clamp(64 << 10, 1 << 20);
        Self {
            limit,
            high: share(high_percent),
            low: share(low_percent),
            slab,
            first_slab: backend.first_segment().min(slab),
            reserved: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            retired: Retired::default(),
            pending_frees: PendingFrees::new(),
            arenas: Arenas::new(backend.arena_users().unwrap_or(0)),
        }
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// The size of a stream's next segment for small blocks of a class, of which it has so many: each is twice as large as
    /// the one before.
    fn slab_after(&self, slabs: usize) -> usize {
        let doubled =
            1usize.checked_shl(slabs as u32).and_then(|times| self.first_slab.checked_mul(times));
        doubled.map_or(self.slab, |bytes| bytes.min(self.slab))
    }

    /// Whether `bytes` more stay below the high watermark.
    fn is_ample(&self, bytes: usize) -> bool {
        self.reserved().saturating_add(bytes) <= self.high
    }

    /// Takes a segment from the device, within the budget.
    fn take_segment(&self, device: &DeviceInner, bytes: usize) -> Result<Option<Segment>> {
        let within = |reserved: usize| reserved.checked_add(bytes).filter(|&sum| sum <= self.limit);
        let Ok(before) = self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
        else {
            return Ok(None);
        };
        match device.backend().allocate(bytes) {
            Ok(Some(segment)) => {
                self.peak.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(Some(Segment { bytes, ..segment }))
            }
            other => {
                self.reserved.fetch_sub(bytes, Ordering::Relaxed);
                other.inspect_err(|error| device.note_error(error))
            }
        }
    }

    /// Frees the segments that `take` takes out of where they are. Their free is pending before that: who no longer finds them there
    /// waits for it. If there are none, no free has finished: who is short of memory has no reason to try again.
    fn free_taken(&self, take: impl FnOnce() -> Vec<Segment>) {
        self.pending_frees.begin();
        let segments = take();
        if segments.is_empty() {
            self.pending_frees.take_back();
            return;
        }
        self.release(segments);
        self.pending_frees.end();
    }

    fn release(&self, segments: Vec<Segment>) {
        for segment in segments {
            let bytes = segment.bytes;
            drop(segment);
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Memory of at least `bytes`, whose home is `stream`.
pub(crate) fn allocate(stream: &'static StreamInner, bytes: usize) -> Result<Buffer> {
    let device = stream.device_inner();
    device.check()?;
    if bytes > device.memory().limit.min(size_class::LARGEST) {
        return Err(out_of_memory(device, bytes));
    }
    let class = size_class::class_of(bytes);
    let buffer = match from_cache(stream, class, bytes) {
        Some(buffer) => buffer,
        None => reclaim::grow(stream, class, bytes)?,
    };
    plan::note_allocation(&buffer);
    Ok(buffer)
}

/// Memory from the stream's cache.
fn from_cache(stream: &'static StreamInner, class: usize, bytes: usize) -> Option<Buffer> {
    take_cached(stream, &mut stream.lock(), class, bytes)
}

/// The same, for a caller that holds the stream's lock.
pub(crate) fn allocate_cached(
    stream: &'static StreamInner,
    recorder: &mut Recorder,
    bytes: usize,
) -> Option<Buffer> {
    if bytes > size_class::LARGEST {
        return None;
    }
    take_cached(stream, recorder, size_class::class_of(bytes), bytes)
}

fn take_cached(
    stream: &'static StreamInner,
    recorder: &mut Recorder,
    class: usize,
    bytes: usize,
) -> Option<Buffer> {
    // Threads whose numbers are the same modulo 2³² only get a worse choice of blocks.
    let thread = thread_number() as u32;
    recorder.cache.collect(stream);
    let block = recorder.cache.take(class, stream, thread)?;
    // SAFETY: the cache handed the block over; nobody else has it.
    unsafe { block.as_ref() }.prepare(bytes, recorder.recorded, thread);
    // SAFETY: prepared with one holder just now.
    Some(unsafe { Buffer::from_prepared(block) })
}

/// A buffer over memory that a caller keeps. Its contents are final.
pub(crate) fn wrap(stream: &'static StreamInner, segment: Segment) -> Buffer {
    let (bytes, address) = (segment.bytes, segment.address);
    // What was wrapped before and is no longer used goes now.
    free_segments(stream, StreamCache::trim_wrapped);
    let block = stream.lock().cache.add_wrapped(segment, stream);
    // SAFETY: a new block, which nobody else has.
    unsafe { block.as_ref() }.begin_settled(bytes, thread_number() as u32);
    stream.device_inner().backend().settled(address);
    // SAFETY: prepared with one holder just now.
    unsafe { Buffer::from_prepared(block) }
}

/// Returns a block whose last handle was dropped.
fn return_block(pointer: NonNull<Block>) {
    // SAFETY: without handles the block is ours until it is pushed.
    let block = unsafe { pointer.as_ref() };
    let home = block.home;
    let device = home.device_inner();
    if device.is_inherited() {
        // After a fork the parent's locks may be held by threads that do not exist here.
        return;
    }
    if block.is_settled() {
        let wrapped = block.class as usize == size_class::WRAPPED;
        device.memory().retired.add(device, pointer);
        if device.is_closed() {
            // For all streams: this call may have freed what another thread has just dropped.
            trim_device(device);
        } else if wrapped {
            // Nothing would use this memory again, and somebody keeps a file for it.
            free_segments(home, StreamCache::trim_wrapped);
        }
        return;
    }
    // SAFETY: sole owner, and blocks live until the home stream frees them.
    unsafe { home.returns().push(pointer) };
    if device.is_closed() {
        trim_stream(home);
    }
}

/// Frees the unused segments of one stream.
pub(crate) fn trim_stream(stream: &'static StreamInner) {
    free_segments(stream, StreamCache::trim);
}

/// Frees segments of one stream, which are taken out under its lock.
fn free_segments(
    stream: &'static StreamInner,
    take: fn(&mut StreamCache, &StreamInner) -> Vec<Segment>,
) {
    let memory = stream.device_inner().memory();
    let segments = {
        let mut recorder = stream.lock();
        recorder.cache.collect(stream);
        let segments = take(&mut recorder.cache, stream);
        if segments.is_empty() {
            return;
        }
        memory.pending_frees.begin();
        segments
    };
    memory.release(segments);
    memory.pending_frees.end();
}

/// Frees all unused segments of a device.
pub(crate) fn trim_device(device: &'static DeviceInner) {
    device.memory().retired.advance(device);
    for stream in device.pool().created() {
        trim_stream(stream);
    }
    trim_arenas(device);
}

/// Frees the arenas of a device that no recorded run needs.
fn trim_arenas(device: &DeviceInner) {
    let memory = device.memory();
    memory.free_taken(|| memory.arenas.trim());
}

fn out_of_memory(device: &'static DeviceInner, requested: usize) -> Error {
    let stats = stats::collect(device);
    Error::OutOfMemory {
        device: device.name().to_owned(),
        requested,
        in_use: stats.in_use,
        cached: stats.cached + stats.deferred,
        reserved: stats.reserved,
        limit: stats.limit,
    }
}

pub(crate) use stats::collect as stats_of;

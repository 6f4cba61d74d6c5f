//! Reclaims memory when a stream's cache has no block. The steps, in order: a new segment within the budget,
//! the stream's deferred blocks, its cache, the caches of other streams, and a wait until the device is idle.

use super::{Buffer, from_cache, size_class, trim_arenas, trim_device, trim_stream};
use crate::stream::{Deadline, StreamInner};
use crate::{Result, Segment};

#[derive(Clone, Copy, Debug)]
enum ReclaimStep {
    NewSegment,
    OwnDeferred,
    OwnCache,
    OtherCaches,
    Idle,
}

const STEPS: [ReclaimStep; 5] = [
    ReclaimStep::NewSegment,
    ReclaimStep::OwnDeferred,
    ReclaimStep::OwnCache,
    ReclaimStep::OtherCaches,
    ReclaimStep::Idle,
];

/// How often the steps are repeated while other threads free segments. If others take what was freed each
/// time, the call fails for lack of memory.
const ATTEMPTS: usize = 4;

/// A block of a class from memory that is found or freed for it.
pub(super) fn grow(stream: &'static StreamInner, class: usize, bytes: usize) -> Result<Buffer> {
    let device = stream.device_inner();
    let memory = device.memory();
    let single = size_class::class_bytes(class);
    let slabs = stream.lock().cache.slabs_of(class);
    let slab = size_class::slab_bytes(class, memory.slab_after(slabs));
    reclaim(stream, (slab, bytes), || {
        if let Some(buffer) = from_cache(stream, class, bytes) {
            return Ok(Some(buffer));
        }
        // A whole slab first; when memory is short, a segment of just one block.
        let slab = Some(slab).filter(|&slab| slab > single && memory.is_ample(slab));
        for size in slab.into_iter().chain([single]) {
            if let Some(segment) = memory.take_segment(device, size)? {
                stream.lock().cache.add_slab(class, segment);
                if let Some(buffer) = from_cache(stream, class, bytes) {
                    return Ok(Some(buffer));
                }
            }
        }
        Ok(None)
    })
}

/// The same for a segment that belongs to no stream.
pub(super) fn grow_segment(stream: &'static StreamInner, bytes: usize) -> Result<Segment> {
    let device = stream.device_inner();
    reclaim(stream, (bytes, bytes), || device.memory().take_segment(device, bytes))
}

/// Tries again after each step. `taken` bytes are taken from the device at best, for a request of `bytes`.
fn reclaim<T>(
    stream: &'static StreamInner,
    (taken, bytes): (usize, usize),
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let device = stream.device_inner();
    let pending_frees = &device.memory().pending_frees;
    // One for all attempts: a call waits no longer than it may, however often there is something to try again for.
    let deadline = Deadline::usual(device);
    for _ in 0..ATTEMPTS {
        let before = pending_frees.finished();
        keep_below_high_water(stream, taken);
        for step in STEPS {
            take(step, stream, deadline);
            if let Some(found) = attempt()? {
                return Ok(found);
            }
        }
        if deadline.is_over() || !pending_frees.any_since(before, Some(deadline.at())) {
            break;
        }
    }
    Err(super::out_of_memory(device, bytes))
}

fn take(step: ReclaimStep, stream: &'static StreamInner, deadline: Deadline) {
    let device = stream.device_inner();
    match step {
        ReclaimStep::NewSegment => {}
        ReclaimStep::OwnDeferred => submit_deferred_uses(stream),
        ReclaimStep::OwnCache => trim_stream(stream),
        ReclaimStep::OtherCaches => trim_device(device),
        ReclaimStep::Idle => {
            // A fault of other work is reported by its own call.
            let _ = device.wait_idle_by(deadline);
            trim_device(device);
        }
    }
}

/// Submits the Commands of other streams that deferred blocks wait for.
fn submit_deferred_uses(stream: &'static StreamInner) {
    let points = stream.lock().cache.deferred_points();
    for point in points {
        // A full stream is waited for in a later step.
        if !point.is_submitted() {
            point.stream().flush_if_room();
        }
    }
}

/// Above the high watermark, frees cached memory down to the low watermark: first that of the calling stream, then
/// that of the others, then arenas that no run needs.
fn keep_below_high_water(stream: &'static StreamInner, bytes: usize) {
    let device = stream.device_inner();
    let memory = device.memory();
    if memory.is_ample(bytes) {
        return;
    }
    memory.retired.advance(device);
    let own = std::iter::once(stream);
    let others = device.pool().created().filter(|other| !std::ptr::eq(*other, stream));
    for candidate in own.chain(others) {
        trim_stream(candidate);
        if memory.reserved().saturating_add(bytes) <= memory.low {
            return;
        }
    }
    trim_arenas(device);
}

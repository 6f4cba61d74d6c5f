//! What is tried, in order, when a stream's cache has no block: a new segment within the budget, own
//! deferred blocks, own cache, the caches of other streams, and waiting until the device is idle.

use std::time::Instant;

use super::{Buffer, from_cache, size_class, trim_device, trim_stream};
use crate::Result;
use crate::stream::StreamInner;

#[derive(Clone, Copy, Debug)]
enum Step {
    NewSegment,
    OwnDeferred,
    OwnCache,
    OtherCaches,
    Idle,
}

const LADDER: [Step; 5] =
    [Step::NewSegment, Step::OwnDeferred, Step::OwnCache, Step::OtherCaches, Step::Idle];

/// How often the ladder is climbed while other threads give segments back. Others may take what came back;
/// whoever is that unlucky each time is told that there is no memory.
const CLIMBS: usize = 4;

pub(super) fn grow(stream: &'static StreamInner, class: usize, bytes: usize) -> Result<Buffer> {
    let device = stream.device_inner();
    let departures = &device.memory().departures;
    for _ in 0..CLIMBS {
        let before = departures.over();
        if let Some(buffer) = climb(stream, class, bytes)? {
            return Ok(buffer);
        }
        let deadline = Instant::now().checked_add(device.config().wait_timeout);
        if !departures.any_since(before, deadline) {
            break;
        }
    }
    Err(super::out_of_memory(device, bytes))
}

fn climb(stream: &'static StreamInner, class: usize, bytes: usize) -> Result<Option<Buffer>> {
    let device = stream.device_inner();
    let memory = device.memory();
    let single = size_class::class_bytes(class);
    let slab = size_class::slab_bytes(class, memory.slab);
    keep_below_high_water(stream, slab);
    for step in LADDER {
        match step {
            Step::NewSegment => {}
            Step::OwnDeferred => submit_deferred_uses(stream),
            Step::OwnCache => trim_stream(stream),
            Step::OtherCaches => trim_device(device),
            Step::Idle => {
                // A fault of other work is for its own call to report; here only the memory counts.
                let _ = device.wait_idle();
                trim_device(device);
            }
        }
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
    }
    Ok(None)
}

/// A deferred block waits for commands of other streams, which nobody may have submitted yet.
fn submit_deferred_uses(stream: &'static StreamInner) {
    let points = stream.lock().cache.deferred_points();
    for point in points {
        // Memory that needs a full stream to move on is waited for later.
        if !point.is_submitted() {
            point.stream().flush_if_room();
        }
    }
}

/// Above the high watermark, gives cached memory back until the low one is reached: first that of the
/// asking stream, then that of the others.
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
}

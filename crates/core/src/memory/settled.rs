//! Settled blocks that were dropped. They are freed after a grace period: when every stream has passed what it had
//! recorded at the time of the drop.

use std::ptr::NonNull;

use smallvec::SmallVec;

use super::Block;
use crate::Timepoint;
use crate::device::DeviceInner;
use crate::sync::schedule::{Mutex, MutexGuard, PoisonError};

/// The list of blocks in their grace period. A device-wide lock, taken only when weights are dropped
/// and when memory is short.
#[derive(Default)]
pub(super) struct Retired(Mutex<Vec<Grace>>);

struct Grace {
    block: NonNull<Block>,
    /// Streams that have not passed yet.
    until: SmallVec<[Timepoint; 4]>,
}

// SAFETY: the blocks are owned by the list, and `Block` may be used from any thread.
unsafe impl Send for Grace {}

impl Retired {
    /// Starts the grace period of a block that has no handles.
    pub fn add(&self, device: &'static DeviceInner, block: NonNull<Block>) {
        let until: SmallVec<[Timepoint; 4]> = device
            .pool()
            .created()
            .map(|stream| Timepoint::new(stream, stream.recorded()))
            .filter(|point| !point.passed())
            .collect();
        // An idle thread may have unsubmitted Commands, and may never submit them.
        submit(device, &until);
        self.list().push(Grace { block, until });
        self.release_passed();
    }

    /// Frees what can be freed, and submits what is not submitted yet. Never waits: a stream without room is checked
    /// again at the next call.
    pub fn advance(&self, device: &'static DeviceInner) {
        let pending: Vec<Timepoint> =
            self.list().iter().flat_map(|grace| grace.until.iter().copied()).collect();
        submit(device, &pending);
        self.release_passed();
    }

    fn release_passed(&self) {
        let passed: Vec<_> = {
            let mut list = self.list();
            for grace in list.iter_mut() {
                grace.until.retain(|point| !point.passed());
            }
            list.extract_if(.., |grace| grace.until.is_empty()).collect()
        };
        for grace in passed {
            // SAFETY: the list owned the block, and it is no longer used.
            unsafe { grace.block.as_ref().home.returns().push(grace.block) };
        }
    }

    pub fn bytes(&self) -> usize {
        let size = |grace: &Grace| {
            // SAFETY: the list owns its blocks.
            super::size_class::class_bytes(unsafe { grace.block.as_ref() }.class as usize)
        };
        self.list().iter().map(size).sum()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Grace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Submits what lies before some points, once per stream and only where there is room.
fn submit(device: &'static DeviceInner, points: &[Timepoint]) {
    let mut tried = SmallVec::<[u32; 8]>::new();
    for point in points {
        let stream = point.stream();
        if stream.submitted() < point.sequence() && !tried.contains(&stream.id()) {
            tried.push(stream.id());
            if device.check().is_ok() {
                // A batch that is refused ends the grace period just as well.
                stream.flush_if_room();
            }
        }
    }
}

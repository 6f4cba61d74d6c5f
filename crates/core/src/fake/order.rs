//! The order of accesses: vector clocks over streams, and a check for conflicts.

use std::ops::Range;

use crate::MAX_STREAMS;

/// For each stream, the last sequence number that certainly comes before.
pub(super) type Clock = [u64; MAX_STREAMS as usize];

pub(super) fn join(clock: &mut Clock, other: &Clock) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

/// Accesses of batches that may still be running.
#[derive(Default)]
pub(super) struct Accesses(Vec<MemoryAccess>);

#[derive(Clone)]
pub(super) struct MemoryAccess {
    pub range: Range<usize>,
    pub stream: u32,
    pub sequence: u64,
    pub write: bool,
}

impl Accesses {
    /// Adds an access that comes after everything in `clock`. Returns the earlier access that it races with, if any.
    pub fn add(&mut self, access: MemoryAccess, clock: &Clock) -> Option<MemoryAccess> {
        let conflict = self.0.iter().find(|earlier| {
            earlier.stream != access.stream
                && (earlier.write || access.write)
                && earlier.range.start < access.range.end
                && access.range.start < earlier.range.end
                && clock[earlier.stream as usize] < earlier.sequence
        });
        let conflict = conflict.cloned();
        self.0.push(access);
        conflict
    }

    /// Drops finished accesses: they come before everything that is submitted from now on.
    pub fn forget(&mut self, finished: impl Fn(&MemoryAccess) -> bool) {
        self.0.retain(|access| !finished(access));
    }

    /// An access, not yet finished, to memory in `range`.
    pub fn within(&self, range: &Range<usize>) -> Option<&MemoryAccess> {
        self.0
            .iter()
            .find(|access| access.range.start < range.end && range.start < access.range.end)
    }
}

//! A place in flight between two batches.

use std::time::{Duration, Instant};

use millstream_core::sync::shim::{lock, wait_until};

use super::{Batch, Coalescer};

/// A place in flight whose batch has ended. Whoever has it leads the next batch, which may be a thread that does not call itself. If it is
/// dropped, the oldest of those that queue leads.
pub(crate) struct Place<J, R>(Option<Coalescer<J, R>>);

impl<J, R> Place<J, R> {
    pub(super) fn of(coalescer: Coalescer<J, R>) -> Self {
        Self(Some(coalescer))
    }

    /// The next batch. Those that were answered last may come back first, and if nobody is there, a call is waited for. The
    /// place is free if none comes.
    pub fn next(mut self, timeout: Duration) -> Option<Batch<J, R>> {
        let coalescer = self.0.take()?;
        let shared = &*coalescer.0;
        shared.let_others_come();
        if !timeout.is_zero() {
            let mut queue = lock(&shared.queue);
            if queue.is_empty() {
                let until = Instant::now() + timeout;
                queue.collecting += 1;
                let mut in_time = true;
                while in_time && queue.is_empty() {
                    (queue, in_time) = wait_until(&shared.arrived, queue, Some(until));
                }
                queue.collecting -= 1;
                drop(queue);
                // The first of them has come.
                shared.let_others_come();
            }
        }
        let batch = coalescer.next_batch()?;
        // More may be in flight than when this place was taken.
        if shared.try_lead_more() {
            coalescer.end_batch();
        }
        Some(batch)
    }
}

impl<J, R> Drop for Place<J, R> {
    fn drop(&mut self) {
        if let Some(coalescer) = self.0.take() {
            coalescer.end_batch();
        }
    }
}

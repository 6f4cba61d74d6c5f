//! Segments that are being freed.
//!
//! The driver takes a while to free a segment. Meanwhile the segment is in no cache, but still counts as
//! reserved. A thread that needs memory just then would report a shortage though there is enough. So before
//! it does, it waits here for frees that are pending.

use std::time::Instant;

use crate::sync::shim::{Condvar, Mutex, lock, wait_until};

/// Guarded by a lock of its own, which is taken only when segments are given back and when memory is short.
pub(crate) struct PendingFrees {
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    pending: usize,
    finished: u64,
}

impl PendingFrees {
    pub fn new() -> Self {
        Self { state: Mutex::new(State { pending: 0, finished: 0 }), freed: Condvar::new() }
    }

    /// Segments leave a cache. Called with the lock of their stream held, so that a thread that no longer
    /// finds them there sees that their free is pending.
    pub fn begin(&self) {
        lock(&self.state).pending += 1;
    }

    /// They are no longer counted as reserved.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        state.pending -= 1;
        state.finished += 1;
        drop(state);
        self.freed.notify_all();
    }

    /// There was nothing to free after all. Whoever waits looks again.
    pub fn take_back(&self) {
        lock(&self.state).pending -= 1;
        self.freed.notify_all();
    }

    /// How many frees have finished. To be read before looking for memory.
    pub fn finished(&self) -> u64 {
        lock(&self.state).finished
    }

    /// Whether a free finished since `before`, or a pending one finishes until the deadline.
    pub fn any_since(&self, before: u64, deadline: Option<Instant>) -> bool {
        let mut state = lock(&self.state);
        let mut waiting = true;
        while waiting && state.finished == before && state.pending > 0 {
            (state, waiting) = wait_until(&self.freed, state, deadline);
        }
        state.finished != before
    }
}

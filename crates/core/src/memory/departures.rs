//! Segments on their way back to the device.
//!
//! The driver takes a while to free a segment. Meanwhile it is in no cache, and yet it counts as reserved:
//! a thread that looks for memory just then finds none, though there is enough. So whoever is about to
//! report a shortage asks here first whether something was on its way.

use std::time::Instant;

use crate::sync::shim::{Condvar, Mutex, lock, wait_until};

/// Guarded by a lock of its own, which is taken only when segments are given back and when memory is short.
pub(crate) struct Departures {
    state: Mutex<State>,
    over: Condvar,
}

struct State {
    under_way: usize,
    over: u64,
}

impl Departures {
    pub fn new() -> Self {
        Self { state: Mutex::new(State { under_way: 0, over: 0 }), over: Condvar::new() }
    }

    /// Segments leave a cache. Called with the lock of their stream, so that whoever does not find them
    /// there any more sees that they are under way.
    pub fn begin(&self) {
        lock(&self.state).under_way += 1;
    }

    /// They are no longer counted as reserved.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        state.under_way -= 1;
        state.over += 1;
        drop(state);
        self.over.notify_all();
    }

    /// How many are over. To be read before looking for memory.
    pub fn over(&self) -> u64 {
        lock(&self.state).over
    }

    /// Whether any ended since `before`, or one that is under way does until the deadline.
    pub fn any_since(&self, before: u64, deadline: Option<Instant>) -> bool {
        let mut state = lock(&self.state);
        let mut waiting = true;
        while waiting && state.over == before && state.under_way > 0 {
            (state, waiting) = wait_until(&self.over, state, deadline);
        }
        state.over != before
    }
}

//! Batches that were submitted and that no thread has seen complete yet.
//!
//! A lock guards them. It is held for moments only: never while launching, copying or waiting. The right to retire
//! finished batches is a token, `retiring`, so that progress is made in order. A thread that finds it taken leaves.

use std::collections::VecDeque;

use millstream_core::sync::shim::{AtomicU64, Mutex, Ordering, lock};

use crate::memory::MAX_IN_FLIGHT;

/// Batches in flight, the oldest first. Each has the tick at which it is complete: its own, or that of the batch
/// before it if nothing of it was launched.
pub(crate) struct InFlight<E> {
    state: Mutex<State<E>>,
    /// The tick of the oldest batch. Comparing it with what the device has completed says whether there is anything
    /// to do, without the lock. Written with the lock held.
    front: AtomicU64,
}

struct State<E> {
    entries: VecDeque<(u64, E)>,
    /// Whether a thread is retiring a batch, which is not in `entries` then.
    retiring: bool,
}

impl<E> State<E> {
    /// The tick of the oldest batch, or a tick that is never reached.
    fn front(&self) -> u64 {
        self.entries.front().map_or(u64::MAX, |(tick, _)| *tick)
    }
}

impl<E> Default for InFlight<E> {
    fn default() -> Self {
        let state = State { entries: VecDeque::new(), retiring: false };
        Self { state: Mutex::new(state), front: AtomicU64::new(u64::MAX) }
    }
}

impl<E> InFlight<E> {
    /// Whether one more batch may be launched: every batch in flight has its own slot for faults.
    pub fn has_room(&self) -> bool {
        let state = lock(&self.state);
        state.entries.len() + usize::from(state.retiring) < MAX_IN_FLIGHT
    }

    /// Adds a batch.
    pub fn push(&self, tick: u64, entry: E) {
        let mut state = lock(&self.state);
        state.entries.push_back((tick, entry));
        self.front.store(state.front(), Ordering::Release);
    }

    /// Whether the oldest batch is complete after the device has completed this many. One load.
    #[inline]
    pub fn is_ready(&self, completed: u64) -> bool {
        completed >= self.front.load(Ordering::Acquire)
    }

    /// The tick of the first batch that `is_wanted`, unless it is being taken off.
    pub fn tick_of(&self, mut is_wanted: impl FnMut(&E) -> bool) -> Option<u64> {
        let state = lock(&self.state);
        state.entries.iter().find(|(_, entry)| is_wanted(entry)).map(|(tick, _)| *tick)
    }

    /// Takes the oldest batch and the token, if the batch is complete and nobody has the token.
    pub fn take(&self, completed: impl FnOnce() -> u64) -> Option<(u64, E)> {
        let mut state = lock(&self.state);
        if state.retiring || state.front() > completed() {
            return None;
        }
        let entry = state.entries.pop_front()?;
        state.retiring = true;
        Some(entry)
    }

    /// Puts a batch and the token back.
    pub fn put_back(&self, tick: u64, entry: E) {
        self.end(|entries| entries.push_front((tick, entry)));
    }

    /// Ends the retirement of a batch: calls `advance` and gives the token back.
    pub fn finish(&self, advance: impl FnOnce()) {
        self.end(|_| advance());
    }

    fn end(&self, change: impl FnOnce(&mut VecDeque<(u64, E)>)) {
        let mut state = lock(&self.state);
        change(&mut state.entries);
        state.retiring = false;
        self.front.store(state.front(), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

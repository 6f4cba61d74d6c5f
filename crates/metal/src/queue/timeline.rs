//! The command buffers of a queue, from commit to handler.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream_gpu::{Failure, MAX_IN_FLIGHT};

/// Failures that are remembered: more than batches whose outcome nobody has asked for yet.
const MAX_FAILURES: usize = 4 * MAX_IN_FLIGHT;

/// What the end of a command buffer completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    /// The batch with this number.
    Batch(u64),
    /// A part of it, with the value of the gate that the next part waits for.
    Part {
        /// The number of the batch.
        tick: u64,
        /// The value.
        gate: u64,
        /// The host's address of a word that gets the time at which it ended. The handler then sets the gate, and not the GPU.
        time: Option<usize>,
    },
}

impl Completion {
    fn tick(self) -> u64 {
        match self {
            Completion::Batch(tick) | Completion::Part { tick, .. } => tick,
        }
    }
}

/// Counts command buffers. The lock is held for moments, by who commits and by handlers.
#[derive(Default)]
pub(crate) struct Timeline {
    /// Batches whose last command buffer was committed.
    batches: AtomicU64,
    /// Command buffers that were committed, and how many of the first of them were handled.
    committed: AtomicU64,
    handled: AtomicU64,
    closed: AtomicBool,
    /// Whether `state` has failures, so that nobody asks for them otherwise.
    has_failures: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Command buffers that are committed, in the order of their numbers. Of one that was handled before an earlier one nothing is
    /// left.
    open: Vec<(u64, Option<Completion>)>,
    failures: Vec<(u64, Failure)>,
}

impl Timeline {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Batches that were committed.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Acquire)
    }

    /// Command buffers that were committed.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Command buffers whose handler has run, as have those of all before them.
    pub fn handled(&self) -> u64 {
        self.handled.load(Ordering::Acquire)
    }

    /// Command buffers that were not handled.
    pub fn open_count(&self) -> usize {
        self.lock().open.len()
    }

    /// No command buffer comes any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// No command buffer comes any more, and all were handled.
    pub fn is_over(&self) -> bool {
        self.closed.load(Ordering::Acquire) && self.handled() >= self.committed()
    }

    /// Commits a command buffer, which counts from before that on: its handler may come at once. Its batch counts from behind it
    /// on: a stream that shares the command queue waits for batches that count, and one that came behind its own would never run.
    ///
    /// `commit` gets its number. What its handler is called with may be another object than the one that is committed here, where a
    /// layer for debugging or captures has put one around it, so the handler is known by the number.
    pub fn commit(&self, completes: Completion, commit: impl FnOnce(u64)) {
        let mut state = self.lock();
        let number = self.committed.load(Ordering::Relaxed) + 1;
        state.open.push((number, Some(completes)));
        self.committed.store(number, Ordering::Release);
        drop(state);
        commit(number);
        if let Completion::Batch(tick) = completes {
            self.batches.store(tick, Ordering::Release);
        }
    }

    /// Notes why a command buffer failed, if it did. Gives what its handler has to signal: what the GPU has not.
    pub fn end(&self, number: u64, failure: Option<Failure>) -> Option<Completion> {
        let mut state = self.lock();
        let completes = (*state.find(number)?)?;
        let Some(failure) = failure else {
            return matches!(completes, Completion::Part { time: Some(_), .. })
                .then_some(completes);
        };
        state.note(completes.tick(), failure);
        self.has_failures.store(true, Ordering::Release);
        Some(completes)
    }

    /// A batch cannot be given to the device whole.
    pub fn fail(&self, tick: u64, failure: Failure) {
        self.lock().note(tick, failure);
        self.has_failures.store(true, Ordering::Release);
    }

    /// The handler of a command buffer is about to end.
    pub fn handle(&self, number: u64) {
        let mut state = self.lock();
        if let Some(open) = state.find(number) {
            *open = None;
        }
        let done = state.open.iter().take_while(|(_, open)| open.is_none()).count();
        state.open.drain(..done);
        let first = state.open.first().map(|(number, _)| *number);
        let handled = first.map_or(self.committed.load(Ordering::Relaxed), |number| number - 1);
        self.handled.store(handled, Ordering::Release);
    }

    /// Why a batch failed, if it did. Asked when its event has come.
    pub fn failure(&self, tick: u64) -> Option<Failure> {
        if !self.has_failures.load(Ordering::Acquire) {
            return None;
        }
        let state = self.lock();
        state
            .failures
            .iter()
            .find(|(failed, _)| *failed == tick)
            .map(|(_, failure)| failure.clone())
    }
}

impl State {
    fn note(&mut self, tick: u64, failure: Failure) {
        if self.failures.len() >= MAX_FAILURES {
            self.failures.remove(0);
        }
        // What failed first explains the rest.
        if !self.failures.iter().any(|(other, _)| *other == tick) {
            self.failures.push((tick, failure));
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Option<Completion>> {
        self.open.iter_mut().find(|(other, _)| *other == number).map(|(_, open)| open)
    }
}

#[cfg(test)]
mod tests;

//! A fair queue of wakers: the first task may go on, each other task is woken when it becomes the first.
//!
//! For tasks that wait for something that only one of them can have at a time. Without the queue each change
//! would wake all of them, and all but one for nothing.

use std::collections::BTreeMap;
use std::task::Waker;

use super::shim::{AtomicBool, Mutex, Ordering, lock};
use super::timeline::wake;

/// The queue. It has one entry per task that waits.
///
/// # Thread safety
///
/// Any thread may do anything.
#[derive(Default)]
pub struct WakerQueue {
    state: Mutex<State>,
    /// Only written with the state locked.
    occupied: AtomicBool,
}

impl std::fmt::Debug for WakerQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WakerQueue").field("occupied", &self.is_occupied()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    /// In the order of arrival. Without a waker where it was called already.
    tasks: BTreeMap<u64, Option<Waker>>,
    next: u64,
}

/// A task's position in a queue, if it is in one.
#[derive(Debug, Default)]
pub struct Position(Option<u64>);

impl WakerQueue {
    /// Whether a task waits. May have changed by the time that the caller goes on.
    pub fn is_occupied(&self) -> bool {
        self.occupied.load(Ordering::Relaxed)
    }

    /// Whether the task is the first; it joins the queue if it is not in it. If not, `waker` is called when it
    /// becomes the first. It stays in the queue until it [leaves](Self::leave).
    pub fn poll(&self, position: &mut Position, waker: &Waker) -> bool {
        // Foreign code, like the drop of an old one below: not with the state locked.
        let waker = waker.clone();
        let mut state = lock(&self.state);
        let own = *position.0.get_or_insert_with(|| {
            state.next += 1;
            state.next
        });
        let old = state.tasks.insert(own, Some(waker));
        self.occupied.store(true, Ordering::Relaxed);
        let is_first = state.tasks.first_key_value().is_some_and(|(first, _)| *first == own);
        drop(state);
        drop(old);
        is_first
    }

    /// Leaves the queue and wakes the next. Calls foreign code: the caller holds no lock.
    pub fn leave(&self, position: &mut Position) {
        let Some(own) = position.0.take() else { return };
        let mut state = lock(&self.state);
        let was_first = state.tasks.first_key_value().is_some_and(|(first, _)| *first == own);
        let old = state.tasks.remove(&own);
        self.occupied.store(!state.tasks.is_empty(), Ordering::Relaxed);
        let mut first = state.tasks.first_entry().filter(|_| was_first);
        let next = first.as_mut().and_then(|first| first.get_mut().take());
        drop(state);
        drop(old);
        next.into_iter().for_each(wake);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

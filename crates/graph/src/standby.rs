//! Threads that wait for work, and end when there is none for a while.
//!
//! Whoever has work gives it to a thread that waits. If none does and there may be more, a new one is started for it. No thread keeps
//! alive what it works for: between two pieces of work it has nothing but this room.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_core::sync::shim::{Condvar, Mutex, lock, wait_until};

/// Work for some threads. See the module's documentation.
pub(crate) struct Standby<T> {
    state: Mutex<State<T>>,
    given: Condvar,
}

struct State<T> {
    /// Work that was given to threads that wait: no more than there are of them.
    work: VecDeque<T>,
    /// Threads that wait.
    waiting: usize,
    /// Threads in all.
    threads: usize,
    /// Set when no more work will come.
    closed: bool,
}

impl<T> Standby<T> {
    pub fn new() -> Self {
        let state = State { work: VecDeque::new(), waiting: 0, threads: 0, closed: false };
        Self { state: Mutex::new(state), given: Condvar::new() }
    }

    /// Gives work to a thread that waits. Without one, the work is given back.
    pub fn give(&self, work: T) -> Result<(), T> {
        let mut state = lock(&self.state);
        if state.waiting <= state.work.len() {
            return Err(work);
        }
        state.work.push_back(work);
        drop(state);
        self.given.notify_one();
        Ok(())
    }

    /// Whether one more thread may be started; it is counted then, until it [leaves](Self::leave) or finds no more work.
    pub fn join(&self, most: usize) -> bool {
        let mut state = lock(&self.state);
        let joins = !state.closed && state.threads < most;
        state.threads += usize::from(joins);
        joins
    }

    /// A thread that was counted is no more.
    pub fn leave(&self) {
        lock(&self.state).threads -= 1;
    }

    /// Waits for work. If none comes, the thread is no longer counted, and ends.
    pub fn take(&self, timeout: Duration) -> Option<T> {
        let until = Instant::now() + timeout;
        let mut state = lock(&self.state);
        let mut in_time = true;
        state.waiting += 1;
        while in_time && state.work.is_empty() && !state.closed {
            (state, in_time) = wait_until(&self.given, state, Some(until));
        }
        state.waiting -= 1;
        let work = state.work.pop_front();
        state.threads -= usize::from(work.is_none());
        work
    }

    /// Has the threads end. What was given before is worked on.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.given.notify_all();
    }
}

/// Gives work to a thread that waits, or to a new one; to nobody if there may be no more. Work that nobody gets is dropped.
pub(crate) fn give_or_spawn<T: Send + 'static>(
    standby: &Arc<Standby<T>>,
    work: T,
    most: usize,
    timeout: Duration,
    run: fn(T),
) {
    let Err(work) = standby.give(work) else { return };
    if !standby.join(most) {
        return;
    }
    let own = Arc::clone(standby);
    let body = move || {
        let mut next = Some(work);
        while let Some(work) = next {
            run(work);
            next = own.take(timeout);
        }
    };
    let thread = std::thread::Builder::new().name("millstream-joined".into());
    if thread.spawn(body).is_err() {
        standby.leave();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

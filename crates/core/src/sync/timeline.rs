//! A counter that only grows, and waits for it to reach a value.
//!
//! One word holds the value and a flag that somebody waits, so that advancing costs one atomic when
//! nobody does, and a wake-up cannot be lost. Waiters stand in lanes by the value that they wait for: where
//! many threads wait for one stream, an advance wakes the one it is for and lets the others sleep.
//!
//! Tasks wait too, each with a waker. Whoever advances the counter wakes them in a second step, since by then
//! it must hold no lock.

mod tasks;

use std::task::Waker;
use std::time::Instant;

use self::tasks::Tasks;
pub use self::tasks::Ticket;
pub(crate) use self::tasks::wake;
use super::shim::{AtomicU64, Condvar, Mutex, Ordering, lock, wait_until};

const WAITING: u64 = 1;

/// Waiters for values of one lane are woken together. loom looks at every one in every interleaving.
const LANES: usize = if cfg!(loom) { 2 } else { 8 };

/// Those who wait in one lane.
#[derive(Clone, Copy)]
struct Lane {
    waiters: usize,
    /// The lowest value that one of them waits for. May be lower than that, never higher.
    target: u64,
}

const EMPTY: Lane = Lane { waiters: 0, target: u64::MAX };

impl Lane {
    /// Wakes all of them. Those who go back to sleep say again what for.
    fn wake(&mut self, changed: &Condvar) {
        if self.waiters > 0 {
            self.target = u64::MAX;
            changed.notify_all();
        }
    }
}

fn lane_of(target: u64) -> usize {
    // Values are often multiples of something: all of their bits count.
    (target.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % LANES
}

/// How the counter is read and moved. A build with `--cfg planted_race` gets this wrong on purpose, so
/// that CI can see loom and ThreadSanitizer notice it.
const READ: Ordering = if cfg!(planted_race) { Ordering::Relaxed } else { Ordering::Acquire };
const MOVE: Ordering = if cfg!(planted_race) { Ordering::Relaxed } else { Ordering::AcqRel };

/// A growing counter that threads can wait for.
///
/// # Thread safety
///
/// Any thread may read, wait and poll. Advancing is for one thread at a time.
pub struct Timeline {
    word: AtomicU64,
    lanes: Mutex<[Lane; LANES]>,
    /// One per lane.
    changed: [Condvar; LANES],
    tasks: Tasks,
}

impl std::fmt::Debug for Timeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timeline").field("value", &self.value()).finish_non_exhaustive()
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Timeline {
    /// A counter at 0.
    pub fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            lanes: Mutex::new([EMPTY; LANES]),
            changed: std::array::from_fn(|_| Condvar::new()),
            tasks: Tasks::new(),
        }
    }

    /// The value. What was done before the counter got there is visible to the caller.
    pub fn value(&self) -> u64 {
        // Pairs with `advance`.
        self.word.load(READ) >> 1
    }

    /// Moves the counter to `value`, or leaves it where it is if it is further already. Tasks are woken by
    /// [`wake_tasks`](Self::wake_tasks), which whoever advances calls when it holds no lock.
    pub fn advance(&self, value: u64) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word >> 1 < value {
            // Pairs with `value`, `wait` and `poll`; the flag is set by steps on the word, which keep the release sequence.
            match self.word.compare_exchange_weak(word, value << 1, MOVE, Ordering::Relaxed) {
                Ok(_) => return self.notify(word),
                Err(current) => word = current,
            }
        }
    }

    /// Makes every thread that waits look at its condition again, without moving the counter.
    pub fn wake(&self) {
        // The flag says nothing here: an advance may have cleared it and not yet set it again for those who
        // stay. A waiter holds the lock from its look at the condition until it sleeps.
        let mut lanes = lock(&self.lanes);
        for (lane, changed) in lanes.iter_mut().zip(&self.changed) {
            lane.wake(changed);
        }
    }

    /// Wakes those whose value is reached. `word` is what was there before the flag was cleared.
    fn notify(&self, word: u64) {
        if word & WAITING == 0 {
            return;
        }
        // A waiter that set the flag holds the lock until it sleeps.
        let mut lanes = lock(&self.lanes);
        if lanes.iter().all(|lane| lane.waiters == 0) {
            return;
        }
        // For those who stay. Whoever moved the counter before this saw no flag and wakes nobody, so its
        // value counts here; whoever moves it later sees the flag.
        let value = self.word.fetch_or(WAITING, MOVE) >> 1;
        for (lane, changed) in lanes.iter_mut().zip(&self.changed) {
            if lane.target <= value {
                lane.wake(changed);
            }
        }
    }

    /// Waits until `done` gives a value. It is asked again after every wake, and when the counter has reached
    /// `target`. Returns `None` when the deadline passed.
    pub fn wait<R>(
        &self,
        target: u64,
        deadline: Option<Instant>,
        mut done: impl FnMut(u64) -> Option<R>,
    ) -> Option<R> {
        if let Some(result) = done(self.value()) {
            return Some(result);
        }
        let index = lane_of(target);
        let mut lanes = lock(&self.lanes);
        lanes[index].waiters += 1;
        let mut in_time = true;
        let result = loop {
            // Set the flag first, then look: what changes after the look clears the flag and notifies. Pairs with
            // `advance`.
            let word = self.word.fetch_or(WAITING, MOVE);
            if let Some(result) = done(word >> 1) {
                break Some(result);
            }
            if !in_time {
                break None;
            }
            lanes[index].target = lanes[index].target.min(target);
            (lanes, in_time) = wait_until(&self.changed[index], lanes, deadline);
        };
        lanes[index].waiters -= 1;
        if lanes[index].waiters == 0 {
            lanes[index].target = u64::MAX;
        }
        result
    }

    /// Looks whether `done` gives a value. If not, `waker` is called when the counter has reached `target`, or
    /// after [`wake_all_tasks`](Self::wake_all_tasks). The ticket is the task's own, for all of its looks: a
    /// later one replaces the waker, and [`forget`](Self::forget) takes it out.
    pub fn poll<R>(
        &self,
        target: u64,
        ticket: &mut Ticket,
        waker: &Waker,
        mut done: impl FnMut(u64) -> Option<R>,
    ) -> Option<R> {
        if let Some(result) = done(self.value()) {
            self.forget(ticket);
            return Some(result);
        }
        // Foreign code, like the drop of an old one below: not with the list locked.
        let waker = waker.clone();
        let mut list = self.tasks.lock();
        let old = self.tasks.add(&mut list, ticket, target, waker);
        // A step on the word that changes nothing. One that advances later sees the waker; what was advanced
        // before is seen here. Pairs with `advance`.
        let word = self.word.fetch_or(0, MOVE);
        let result = done(word >> 1);
        let own = if result.is_some() { self.tasks.remove(&mut list, ticket) } else { None };
        drop(list);
        drop((old, own));
        result
    }

    /// Takes the waker of a task out.
    pub fn forget(&self, ticket: &mut Ticket) {
        if !ticket.is_empty() {
            let waker = self.tasks.remove(&mut self.tasks.lock(), ticket);
            drop(waker);
        }
    }

    /// Wakes the tasks whose value is reached. Calls foreign code: the caller holds no lock. Costs two loads
    /// when there are none.
    pub fn wake_tasks(&self) {
        let value = self.value();
        if self.tasks.first() <= value {
            self.tasks.wake(value);
        }
    }

    /// Wakes all tasks, since a condition outside the counter has changed. The caller holds no lock.
    pub fn wake_all_tasks(&self) {
        // A task holds the lock from its look at the condition until its waker is in the list.
        self.tasks.wake(u64::MAX);
    }

    /// Whether a task waits. Seen by whoever comes after its [`poll`](Self::poll) by any order.
    pub fn has_tasks(&self) -> bool {
        self.tasks.first() != u64::MAX
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

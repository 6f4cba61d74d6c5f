//! A counter that only grows, and waits for it to reach a value.
//!
//! One word holds the value and a flag that somebody waits, so that advancing costs one atomic when
//! nobody does, and a wake-up cannot be lost.

use std::time::Instant;

use super::shim::{AtomicU64, Condvar, Mutex, Ordering, lock, wait_until};

const WAITING: u64 = 1;

/// How the counter is read and moved. A build with `--cfg planted_race` gets this wrong on purpose, so
/// that CI can see loom and ThreadSanitizer notice it.
const READ: Ordering = if cfg!(planted_race) { Ordering::Relaxed } else { Ordering::Acquire };
const MOVE: Ordering = if cfg!(planted_race) { Ordering::Relaxed } else { Ordering::AcqRel };

/// A growing counter that threads can wait for.
///
/// # Thread safety
///
/// Any thread may read and wait. Advancing is for one thread at a time.
pub struct Timeline {
    word: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Timeline {
    /// A counter at 0.
    pub fn new() -> Self {
        Self { word: AtomicU64::new(0), lock: Mutex::new(()), changed: Condvar::new() }
    }

    /// The value. What was done before the counter got there is visible to the caller.
    pub fn value(&self) -> u64 {
        self.word.load(READ) >> 1
    }

    /// Moves the counter to `value`, or leaves it where it is if it is further already.
    pub fn advance(&self, value: u64) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word >> 1 < value {
            match self.word.compare_exchange_weak(word, value << 1, MOVE, Ordering::Relaxed) {
                Ok(_) => return self.notify(word),
                Err(current) => word = current,
            }
        }
    }

    /// Makes every waiter look at its condition again, without moving the counter.
    pub fn wake(&self) {
        let word = self.word.fetch_and(!WAITING, Ordering::AcqRel);
        self.notify(word);
    }

    fn notify(&self, word: u64) {
        if word & WAITING != 0 {
            // The waiter that set the flag holds the lock until it sleeps.
            drop(lock(&self.lock));
            self.changed.notify_all();
        }
    }

    /// Waits until `done` gives a value. It is asked again after every advance and every wake.
    /// Returns `None` when the deadline passed.
    pub fn wait<R>(
        &self,
        deadline: Option<Instant>,
        mut done: impl FnMut(u64) -> Option<R>,
    ) -> Option<R> {
        if let Some(result) = done(self.value()) {
            return Some(result);
        }
        let mut guard = lock(&self.lock);
        let mut in_time = true;
        loop {
            // Set the flag first, then look: what changes after the look clears the flag and notifies.
            let word = self.word.fetch_or(WAITING, MOVE);
            if let Some(result) = done(word >> 1) {
                return Some(result);
            }
            if !in_time {
                return None;
            }
            (guard, in_time) = wait_until(&self.changed, guard, deadline);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    fn reach(timeline: &Timeline, value: u64, deadline: Option<Instant>) -> bool {
        timeline.wait(deadline, |now| (now >= value).then_some(())).is_some()
    }

    #[test]
    fn it_never_moves_back() {
        let timeline = Timeline::new();
        timeline.advance(5);
        timeline.advance(3);
        assert_eq!(timeline.value(), 5);
    }

    #[test]
    fn a_wait_ends_at_its_deadline() {
        let timeline = Timeline::new();
        let deadline = Instant::now() + Duration::from_millis(5);
        assert!(!reach(&timeline, 1, Some(deadline)));
        assert!(Instant::now() >= deadline);
        timeline.advance(1);
        assert!(reach(&timeline, 1, Some(deadline)), "done counts, even after the deadline");
    }

    #[test]
    fn many_waiters_are_released_at_their_own_value() {
        let timeline = Timeline::new();
        std::thread::scope(|scope| {
            for value in 1..=16 {
                let timeline = &timeline;
                scope.spawn(move || {
                    assert!(reach(timeline, value, None));
                    assert!(timeline.value() >= value);
                });
            }
            for value in 1..=16 {
                timeline.advance(value);
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize};
    use loom::thread;

    use super::*;

    /// No lost wake-up, and what the device wrote is visible to whoever waited.
    #[test]
    fn loom_waits_see_what_was_written_before_the_advance() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let timeline = Arc::new(Timeline::new());
            let result = Arc::new(AtomicUsize::new(0));
            let waiters: Vec<_> = (1..=2)
                .map(|value| {
                    let (timeline, result) = (Arc::clone(&timeline), Arc::clone(&result));
                    thread::spawn(move || {
                        timeline.wait(None, |now| (now >= value).then_some(())).unwrap();
                        assert!(result.load(Ordering::Relaxed) >= value as usize);
                    })
                })
                .collect();
            for value in 1..=2 {
                result.store(value, Ordering::Relaxed);
                timeline.advance(value as u64);
            }
            for waiter in waiters {
                waiter.join().unwrap();
            }
        });
    }

    /// A condition outside the counter (a fault, a lost device) releases the waiter too.
    #[test]
    fn loom_wake_releases_a_waiter() {
        loom::model(|| {
            let timeline = Arc::new(Timeline::new());
            let lost = Arc::new(AtomicBool::new(false));
            let waiter = {
                let (timeline, lost) = (Arc::clone(&timeline), Arc::clone(&lost));
                thread::spawn(move || {
                    timeline
                        .wait(None, |now| (now >= 1 || lost.load(Ordering::Acquire)).then_some(()))
                })
            };
            lost.store(true, Ordering::Release);
            timeline.wake();
            waiter.join().unwrap().unwrap();
        });
    }
}

//! Batches that were taken and that nobody has seen complete.
//!
//! Guarded by a lock that is held for moments only: never while launching, copying or waiting. The right
//! to take finished batches off is a token, `retiring`, so that progress is made in order; whoever finds
//! it taken goes away.

use std::collections::VecDeque;

use millstream_core::sync::shim::{AtomicU64, Mutex, Ordering, lock};

use crate::memory::MAX_IN_FLIGHT;

/// Batches in flight, the oldest first, each with the tick that says that it is through: its own, or that of the
/// batch before it if nothing of it was launched.
pub(crate) struct InFlight<E> {
    state: Mutex<State<E>>,
    /// The tick of the oldest: a comparison with what the device has completed says whether there is
    /// anything to do, without the lock. Written with the lock held.
    front: AtomicU64,
}

struct State<E> {
    entries: VecDeque<(u64, E)>,
    /// Somebody is taking a batch off, which is not in `entries` then.
    retiring: bool,
}

impl<E> State<E> {
    /// The tick of the oldest, or more than there will ever be.
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
    /// Whether one more may be launched: every batch in flight has a slot of its own for its faults.
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

    /// Whether the oldest batch is through when the device has completed so many. One load.
    #[inline]
    pub fn is_ready(&self, completed: u64) -> bool {
        completed >= self.front.load(Ordering::Acquire)
    }

    /// Takes the oldest batch and the token, if it is through and nobody has the token.
    pub fn take(&self, completed: impl FnOnce() -> u64) -> Option<(u64, E)> {
        let mut state = lock(&self.state);
        if state.retiring || state.front() > completed() {
            return None;
        }
        let entry = state.entries.pop_front()?;
        state.retiring = true;
        Some(entry)
    }

    /// Puts a batch back that was taken, and the token.
    pub fn put_back(&self, tick: u64, entry: E) {
        self.end(|entries| entries.push_front((tick, entry)));
    }

    /// A batch that was taken is done: makes progress, and gives the token back.
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
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_taken_when_its_tick_has_come() {
        let flight = InFlight::default();
        assert!(!flight.is_ready(u64::MAX - 1));
        flight.push(3, 'a');
        flight.push(4, 'b');
        assert!(!flight.is_ready(2) && flight.take(|| 2).is_none());
        assert!(flight.is_ready(3));
        assert_eq!(flight.take(|| 4), Some((3, 'a')));
        // One at a time, so that progress is made in order.
        assert_eq!(flight.take(|| 4), None);
        flight.put_back(3, 'a');
        assert_eq!(flight.take(|| 3), Some((3, 'a')));
        flight.finish(|| {});
        assert!(!flight.is_ready(3) && flight.is_ready(4));
        assert_eq!(flight.take(|| 4), Some((4, 'b')));
    }

    #[test]
    fn no_more_are_in_flight_than_have_slots() {
        let flight = InFlight::default();
        let mut count = 0;
        while flight.has_room() {
            flight.push(1, ());
            count += 1;
        }
        assert_eq!(count, MAX_IN_FLIGHT);
        // One that is being taken off still has its slot.
        flight.take(|| 1).unwrap();
        assert!(!flight.has_room());
        flight.finish(|| {});
        assert!(flight.has_room());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    struct Queue {
        flight: InFlight<u64>,
        completed: AtomicU64,
        /// The last batch that was taken off.
        progress: AtomicU64,
    }

    impl Queue {
        fn new() -> Arc<Self> {
            let (completed, progress) = (AtomicU64::new(0), AtomicU64::new(0));
            Arc::new(Self { flight: InFlight::default(), completed, progress })
        }

        fn completed(&self) -> u64 {
            self.completed.load(Ordering::Acquire)
        }

        fn retire(&self) {
            while self.flight.is_ready(self.completed()) {
                let Some((tick, number)) = self.flight.take(|| self.completed()) else { return };
                assert_eq!(tick, number);
                self.flight.finish(|| {
                    // In order, and each once.
                    assert_eq!(self.progress.load(Ordering::Relaxed) + 1, number);
                    self.progress.store(number, Ordering::Relaxed);
                });
            }
        }
    }

    /// The device completes two batches while two threads take them off.
    #[test]
    fn loom_batches_are_taken_off_in_order_and_each_once() {
        loom::model(|| {
            let queue = Queue::new();
            queue.flight.push(1, 1);
            queue.flight.push(2, 2);
            let other = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.retire())
            };
            let device = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    queue.completed.store(1, Ordering::Release);
                    queue.completed.store(2, Ordering::Release);
                })
            };
            queue.retire();
            other.join().unwrap();
            device.join().unwrap();
            // Whoever looks when all is through finds nothing left behind.
            queue.retire();
            assert_eq!(queue.progress.load(Ordering::Relaxed), 2);
        });
    }

    /// A batch is added while the one before it is taken off.
    #[test]
    fn loom_a_batch_that_is_added_meanwhile_is_found() {
        loom::model(|| {
            let queue = Queue::new();
            queue.flight.push(1, 1);
            queue.completed.store(2, Ordering::Release);
            let submitter = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.flight.push(2, 2))
            };
            queue.retire();
            submitter.join().unwrap();
            queue.retire();
            assert_eq!(queue.progress.load(Ordering::Relaxed), 2);
        });
    }
}

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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn tasks_become_first_in_the_order_of_arrival_and_only_the_first_is_woken() {
        let queue = WakerQueue::default();
        let woken: Vec<_> = (0..3).map(|_| Arc::new(Woken::default())).collect();
        let wakers: Vec<_> = woken.iter().map(|woken| Waker::from(Arc::clone(woken))).collect();
        let mut positions: Vec<_> = (0..3).map(|_| Position::default()).collect();
        for (index, (position, waker)) in positions.iter_mut().zip(&wakers).enumerate() {
            assert_eq!(queue.poll(position, waker), index == 0);
        }
        let counts =
            || woken.iter().map(|woken| woken.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert!(queue.is_occupied());
        queue.leave(&mut positions[1]);
        assert_eq!(counts(), [0, 0, 0], "the first is still there");
        queue.leave(&mut positions[0]);
        assert_eq!(counts(), [0, 0, 1]);
        assert!(queue.poll(&mut positions[2], &wakers[2]));
        queue.leave(&mut positions[2]);
        queue.leave(&mut positions[2]);
        assert!(!queue.is_occupied());
        assert!(woken.iter().all(|woken| Arc::strong_count(woken) == 2), "no waker is kept");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;
    use std::task::Wake;

    use loom::sync::atomic::AtomicUsize;
    use loom::sync::{Condvar, Mutex};
    use loom::thread;

    use super::*;

    #[derive(Default)]
    struct Woken(Mutex<bool>, Condvar);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() = true;
            self.1.notify_one();
        }
    }

    /// Waits until it is first, as an executor would.
    fn wait(queue: &WakerQueue) -> Position {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut position = Position::default();
        while !queue.poll(&mut position, &waker) {
            let mut called = woken.0.lock().unwrap();
            while !*called {
                called = woken.1.wait(called).unwrap();
            }
            *called = false;
        }
        position
    }

    /// Every task becomes the first, one at a time, also when one leaves before it is.
    #[test]
    fn loom_every_task_in_the_queue_becomes_first() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((WakerQueue::default(), AtomicUsize::new(0)));
            let tasks: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let mut position = wait(&shared.0);
                        assert_eq!(shared.1.fetch_add(1, Ordering::Relaxed), 0, "alone");
                        shared.1.fetch_sub(1, Ordering::Relaxed);
                        shared.0.leave(&mut position);
                    })
                })
                .collect();
            let mut dropped = Position::default();
            shared.0.poll(&mut dropped, Waker::noop());
            shared.0.leave(&mut dropped);
            for task in tasks {
                task.join().unwrap();
            }
            assert!(!shared.0.is_occupied());
        });
    }
}

//! A line of tasks: the first may go on, the others are woken when they are first.
//!
//! For tasks that wait for something that only one of them can have at a time. Without the line each change
//! would wake all of them, and all but one for nothing.

use std::collections::BTreeMap;
use std::task::Waker;

use super::shim::{AtomicBool, Mutex, Ordering, lock};
use super::timeline::wake;

/// The line. What it keeps is bounded by the tasks that stand in it.
///
/// # Thread safety
///
/// Any thread may do anything.
#[derive(Default)]
pub struct TaskLine {
    line: Mutex<Line>,
    /// Only written with the line locked.
    occupied: AtomicBool,
}

#[derive(Default)]
struct Line {
    /// In the order of arrival. Without a waker where that was called already.
    tasks: BTreeMap<u64, Option<Waker>>,
    places: u64,
}

/// A task's place in a line. One that is empty has none.
#[derive(Debug, Default)]
pub struct Place(Option<u64>);

impl TaskLine {
    /// Whether somebody stands in line. May be over by the time that the caller goes on.
    pub fn is_occupied(&self) -> bool {
        self.occupied.load(Ordering::Relaxed)
    }

    /// Whether the task is the first in line; it joins if it does not stand there. Else `waker` is called when
    /// it is. It stays in line until it [leaves](Self::leave).
    pub fn poll(&self, place: &mut Place, waker: &Waker) -> bool {
        // Foreign code, like the drop of an old one below: not with the line locked.
        let waker = waker.clone();
        let mut line = lock(&self.line);
        let own = *place.0.get_or_insert_with(|| {
            line.places += 1;
            line.places
        });
        let old = line.tasks.insert(own, Some(waker));
        self.occupied.store(true, Ordering::Relaxed);
        let is_first = line.tasks.first_key_value().is_some_and(|(first, _)| *first == own);
        drop(line);
        drop(old);
        is_first
    }

    /// Leaves the line and lets the next come forward. Calls foreign code: the caller holds no lock.
    pub fn leave(&self, place: &mut Place) {
        let Some(own) = place.0.take() else { return };
        let mut line = lock(&self.line);
        let was_first = line.tasks.first_key_value().is_some_and(|(first, _)| *first == own);
        let old = line.tasks.remove(&own);
        self.occupied.store(!line.tasks.is_empty(), Ordering::Relaxed);
        let mut first = line.tasks.first_entry().filter(|_| was_first);
        let next = first.as_mut().and_then(|first| first.get_mut().take());
        drop(line);
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
    fn tasks_come_forward_in_the_order_of_arrival_and_only_the_first_is_woken() {
        let line = TaskLine::default();
        let woken: Vec<_> = (0..3).map(|_| Arc::new(Woken::default())).collect();
        let wakers: Vec<_> = woken.iter().map(|woken| Waker::from(Arc::clone(woken))).collect();
        let mut places: Vec<_> = (0..3).map(|_| Place::default()).collect();
        for (index, (place, waker)) in places.iter_mut().zip(&wakers).enumerate() {
            assert_eq!(line.poll(place, waker), index == 0);
        }
        let counts =
            || woken.iter().map(|woken| woken.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert!(line.is_occupied());
        line.leave(&mut places[1]);
        assert_eq!(counts(), [0, 0, 0], "the first is still there");
        line.leave(&mut places[0]);
        assert_eq!(counts(), [0, 0, 1]);
        assert!(line.poll(&mut places[2], &wakers[2]));
        line.leave(&mut places[2]);
        line.leave(&mut places[2]);
        assert!(!line.is_occupied());
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

    /// Stands in line until it is first, as an executor would have it.
    fn stand(line: &TaskLine) -> Place {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut place = Place::default();
        while !line.poll(&mut place, &waker) {
            let mut called = woken.0.lock().unwrap();
            while !*called {
                called = woken.1.wait(called).unwrap();
            }
            *called = false;
        }
        place
    }

    /// Everybody comes to be first, one at a time, also when one leaves before it is.
    #[test]
    fn loom_every_task_in_line_comes_forward() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((TaskLine::default(), AtomicUsize::new(0)));
            let tasks: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let mut place = stand(&shared.0);
                        assert_eq!(shared.1.fetch_add(1, Ordering::Relaxed), 0, "alone");
                        shared.1.fetch_sub(1, Ordering::Relaxed);
                        shared.0.leave(&mut place);
                    })
                })
                .collect();
            let mut dropped = Place::default();
            shared.0.poll(&mut dropped, Waker::noop());
            shared.0.leave(&mut dropped);
            for task in tasks {
                task.join().unwrap();
            }
            assert!(!shared.0.is_occupied());
        });
    }
}

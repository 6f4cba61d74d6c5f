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

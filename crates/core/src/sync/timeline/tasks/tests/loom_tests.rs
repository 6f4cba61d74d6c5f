use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread;

use super::*;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(check);
}

/// No lost wake-up, and what the device wrote is visible to the task.
#[test]
fn loom_a_task_is_woken_and_sees_what_was_written_before_the_advance() {
    model(|| {
        let shared = Arc::new((Timeline::new(), AtomicUsize::new(0)));
        let task = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut ticket = Ticket::default();
                Woken::block_on(|waker| reach(&shared.0, 1, &mut ticket, waker));
                assert_eq!(shared.1.load(Ordering::Relaxed), 1);
            })
        };
        shared.1.store(1, Ordering::Relaxed);
        shared.0.advance(1);
        shared.0.wake_tasks();
        task.join().unwrap();
        assert!(!shared.0.has_tasks());
    });
}

/// A task beside a thread: each is served.
#[test]
fn loom_a_task_and_a_thread_wait_for_one_counter() {
    model(|| {
        let timeline = Arc::new(Timeline::new());
        let task = {
            let timeline = Arc::clone(&timeline);
            thread::spawn(move || {
                let mut ticket = Ticket::default();
                Woken::block_on(|waker| reach(&timeline, 2, &mut ticket, waker));
            })
        };
        let waiter = {
            let timeline = Arc::clone(&timeline);
            thread::spawn(move || {
                timeline.wait(1, None, |now| (now >= 1).then_some(())).unwrap();
            })
        };
        for value in 1..=2 {
            timeline.advance(value);
            timeline.wake_tasks();
        }
        waiter.join().unwrap();
        task.join().unwrap();
    });
}

/// A task is dropped while it is woken: its waker is gone, and another's is not taken for it.
#[test]
fn loom_a_task_is_dropped_while_another_is_woken() {
    model(|| {
        let timeline = Arc::new(Timeline::new());
        let dropped = {
            let timeline = Arc::clone(&timeline);
            thread::spawn(move || {
                let mut ticket = Ticket::default();
                reach(&timeline, 1, &mut ticket, Waker::noop());
                timeline.forget(&mut ticket);
            })
        };
        let task = {
            let timeline = Arc::clone(&timeline);
            thread::spawn(move || {
                let mut ticket = Ticket::default();
                Woken::block_on(|waker| reach(&timeline, 1, &mut ticket, waker));
            })
        };
        timeline.advance(1);
        timeline.wake_tasks();
        dropped.join().unwrap();
        task.join().unwrap();
        assert!(!timeline.has_tasks());
    });
}

/// A condition outside the counter (a lost device) releases the task too.
#[test]
fn loom_a_condition_outside_the_counter_releases_a_task() {
    model(|| {
        let shared = Arc::new((Timeline::new(), AtomicBool::new(false)));
        let task = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut ticket = Ticket::default();
                Woken::block_on(|waker| {
                    let lost = || shared.1.load(Ordering::Acquire);
                    let done = |now| (now >= 1 || lost()).then_some(());
                    shared.0.poll(1, &mut ticket, waker, done).is_some()
                });
            })
        };
        shared.1.store(true, Ordering::Release);
        shared.0.wake_all_tasks();
        task.join().unwrap();
    });
}

//! Whoever sees the counter sees what failed.

use loom::sync::Arc;
use loom::thread;

use super::*;

fn lost() -> Error {
    Error::DeviceClosed { device: "planted".into() }
}

/// Whoever sees that the device is through with a failed Command sees that it failed.
#[test]
fn loom_a_fault_is_seen_by_who_sees_the_progress() {
    loom::model(|| {
        let progress = Arc::new(Progress::new());
        let reader = {
            let progress = Arc::clone(&progress);
            thread::spawn(move || assert_ne!(progress.outcome(1), Outcome::Done))
        };
        progress.note(1, 1, &Fault::new(lost()));
        progress.advance(1);
        reader.join().unwrap();
    });
}

/// A loss releases a waiter, whatever the device is doing.
#[test]
fn loom_a_loss_releases_a_waiter() {
    loom::model(|| {
        let progress = Arc::new(Progress::new());
        let waiter = {
            let progress = Arc::clone(&progress);
            thread::spawn(move || progress.wait(2, None))
        };
        progress.advance(1);
        progress.lose(lost());
        assert_eq!(waiter.join().unwrap(), Outcome::Failed(lost()));
    });
}

/// The same for a task: it sees the loss by itself, or is woken.
#[test]
fn loom_a_loss_is_seen_by_a_task_or_wakes_it() {
    use std::task::Wake;

    use loom::sync::atomic::AtomicBool;

    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, Ordering::Release);
        }
    }
    loom::model(|| {
        let progress = Arc::new(Progress::new());
        let woken = std::sync::Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(std::sync::Arc::clone(&woken));
        let task = {
            let progress = Arc::clone(&progress);
            thread::spawn(move || progress.poll_passed(1, &mut Ticket::default(), &waker))
        };
        progress.lose(lost());
        progress.wake_tasks();
        let seen = task.join().unwrap();
        assert!(seen || woken.0.load(Ordering::Acquire));
    });
}

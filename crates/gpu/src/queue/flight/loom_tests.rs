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

/// Two threads take off what is through.
#[test]
fn loom_batches_are_taken_off_in_order_and_each_once() {
    loom::model(|| {
        let queue = Queue::new();
        queue.flight.push(1, 1);
        queue.flight.push(2, 2);
        queue.completed.store(2, Ordering::Release);
        let other = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.retire())
        };
        queue.retire();
        other.join().unwrap();
        // Whoever finds the token taken goes away, and nothing is left behind.
        assert_eq!(queue.progress.load(Ordering::Relaxed), 2);
    });
}

/// The device completes batches while a thread takes them off.
#[test]
fn loom_a_batch_that_completes_meanwhile_is_found() {
    loom::model(|| {
        let queue = Queue::new();
        queue.flight.push(1, 1);
        queue.flight.push(2, 2);
        let device = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                queue.completed.store(1, Ordering::Release);
                queue.completed.store(2, Ordering::Release);
            })
        };
        queue.retire();
        device.join().unwrap();
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

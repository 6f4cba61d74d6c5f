use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::*;

#[derive(Default)]
struct Queues {
    watcher: Watcher,
    waiters: AtomicU32,
    advances: AtomicU32,
}

impl AsRef<Watcher> for Queues {
    fn as_ref(&self) -> &Watcher {
        &self.watcher
    }
}

impl Watched for Queues {
    fn has_waiters(&self, _: u32) -> bool {
        self.waiters.load(Ordering::SeqCst) > 0
    }
    fn advance(&self, id: u32) -> bool {
        assert_eq!(id, 5);
        self.advances.fetch_add(1, Ordering::SeqCst);
        // Wakes its sleeper.
        self.waiters.store(0, Ordering::SeqCst);
        true
    }
    fn probe(&self, _: u32) {}
}

/// Waits for a condition; the time only ends a test that would hang.
fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn sleepers_are_served_again_and_again_and_the_thread_ends() {
    let queues = Arc::new(Queues::default());
    Watcher::start(Arc::clone(&queues)).unwrap();
    for round in 0..100 {
        queues.waiters.store(1, Ordering::SeqCst);
        queues.watcher.watch(5);
        until("a sleeper is served", || queues.waiters.load(Ordering::SeqCst) == 0);
        if round % 10 == 0 {
            // The next sleeper finds it asleep, the others mostly awake.
            until("the watcher sleeps", || queues.watcher.asleep.load(Ordering::SeqCst));
        }
    }
    assert!(queues.advances.load(Ordering::SeqCst) >= 100);
    queues.watcher.stop();
}

use loom::sync::Arc;
use loom::thread;

use super::*;

/// A stream that blocks while the other comes further is tried again, by one side or the other.
#[test]
fn loom_a_blocked_stream_is_notified() {
    loom::model(|| {
        let shared = Arc::new((Dependents::new(), AtomicU64::new(0)));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(1, Ordering::Release);
                shared.0.take().any(|stream| stream == 3)
            })
        };
        let passed = shared.0.add_and_check(3, || shared.1.load(Ordering::Acquire) == 1);
        let notified = other.join().unwrap();
        assert!(passed || notified);
    });
}

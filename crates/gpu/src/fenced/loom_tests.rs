use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::*;

/// A driver's call may be as little as a relaxed load or store.
#[test]
fn loom_what_was_written_before_a_value_is_visible_to_who_sees_it() {
    loom::model(|| {
        let shared = Arc::new((UnsafeCell::new(0), AtomicU64::new(0)));
        let writer = Arc::clone(&shared);
        let written = thread::spawn(move || {
            let (result, event) = &*writer;
            // SAFETY: read only by who sees the event; loom fails where that is not so.
            result.with_mut(|result| unsafe { *result = 7 });
            release(|| event.store(1, Ordering::Relaxed));
        });
        let (result, event) = &*shared;
        if acquire(|| event.load(Ordering::Relaxed)) == 1 {
            // SAFETY: written before the event was set.
            assert_eq!(result.with(|result| unsafe { *result }), 7);
        }
        written.join().unwrap();
    });
}

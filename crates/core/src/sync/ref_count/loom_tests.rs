use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// Two holders use the thing, one of them by a copy of its handle; the last one frees it.
#[test]
fn loom_the_last_holder_sees_what_the_others_did() {
    loom::model(|| {
        let shared = Arc::new((RefCount::default(), UnsafeCell::new(0), UnsafeCell::new(0)));
        let leave = |shared: &(RefCount, UnsafeCell<u32>, UnsafeCell<u32>)| {
            let last = shared.0.decrement();
            if last {
                // SAFETY: nobody else holds it; loom reports it if that is not enough.
                shared.1.with_mut(|value| unsafe { *value += 1 });
                // SAFETY: as above.
                shared.2.with_mut(|value| unsafe { *value += 1 });
            }
            last
        };
        shared.0.reset();
        shared.0.increment();
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // SAFETY: only this holder uses it, until it has left.
                shared.1.with_mut(|value| unsafe { *value = 1 });
                leave(&shared)
            })
        };
        // SAFETY: as above.
        shared.2.with_mut(|value| unsafe { *value = 1 });
        let last = leave(&shared);
        assert!(last != other.join().unwrap());
    });
}

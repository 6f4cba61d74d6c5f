//! A reference count whose last holder frees the thing.

use super::shim::{AtomicUsize, Ordering};

/// A reference count.
///
/// # Thread safety
///
/// Any holder may increment and decrement. What all of them did is visible to the last one.
#[derive(Debug, Default)]
pub struct RefCount(AtomicUsize);

impl RefCount {
    /// Sets the count from zero to one.
    pub fn reset(&self) {
        // Relaxed: whoever holds it next is handed it by this thread.
        self.0.store(1, Ordering::Relaxed);
    }

    /// Adds a holder. Only for a holder.
    pub fn increment(&self) {
        // Relaxed is enough: the new holder comes from an existing one, as in `Arc`.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a holder. True for the last one.
    pub fn decrement(&self) -> bool {
        // Pairs with the load below, by whoever is last.
        if self.0.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        // Pairs with the step above of all others, whose release sequence ends with the last one's own. (A
        // load instead of a fence, which ThreadSanitizer does not model.)
        self.0.load(Ordering::Acquire);
        true
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
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
}

//! How many hold a thing that the last of them gives back.

use super::shim::{AtomicUsize, Ordering};

/// A count of holders.
///
/// # Thread safety
///
/// Any holder may add another one or leave. What all of them did is visible to the last one to leave.
#[derive(Default)]
pub struct Holders(AtomicUsize);

impl Holders {
    /// One holder, of a thing that had none.
    pub fn begin(&self) {
        // Relaxed: whoever holds it next is handed it by this thread.
        self.0.store(1, Ordering::Relaxed);
    }

    /// One more. Only for a holder.
    pub fn add(&self) {
        // Relaxed is enough: the new holder comes from an existing one, as in `Arc`.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less. True for the last one.
    pub fn leave(&self) -> bool {
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

    /// Two holders use the thing, one of them by a copy of its handle; the last gives it back.
    #[test]
    fn loom_the_last_holder_sees_what_the_others_did() {
        loom::model(|| {
            let shared = Arc::new((Holders::default(), UnsafeCell::new(0), UnsafeCell::new(0)));
            let leave = |shared: &(Holders, UnsafeCell<u32>, UnsafeCell<u32>)| {
                let last = shared.0.leave();
                if last {
                    // SAFETY: nobody else holds it; loom reports it if that is not enough.
                    shared.1.with_mut(|value| unsafe { *value += 1 });
                    // SAFETY: as above.
                    shared.2.with_mut(|value| unsafe { *value += 1 });
                }
                last
            };
            shared.0.begin();
            shared.0.add();
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

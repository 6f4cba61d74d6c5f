//! A flag that publishes what was done before it was set.

use super::shim::{AtomicBool, Ordering};

/// A flag.
///
/// # Thread safety
///
/// Any thread may set and read it. What was done before it was set is visible to a thread that sees it set.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// Sets the flag.
    pub fn set(&self) {
        // Pairs with `is_set`.
        self.0.store(true, Ordering::Release);
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        // Pairs with `set`: on this load alone a reader goes on to what was written before.
        self.0.load(Ordering::Acquire)
    }

    /// Clears the flag. Only while no other thread can read it.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Settled contents: whoever sees the flag reads without any other order.
    #[test]
    fn loom_a_set_flag_shows_what_was_written_before() {
        loom::model(|| {
            let shared = Arc::new((Flag::default(), UnsafeCell::new(0)));
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // SAFETY: the other thread reads only when the flag is set; loom checks that.
                    shared.1.with_mut(|value| unsafe { *value = 7 });
                    shared.0.set();
                })
            };
            if shared.0.is_set() {
                // SAFETY: the writer is through; loom reports it if that is not enough.
                shared.1.with(|value| assert_eq!(unsafe { *value }, 7));
            }
            writer.join().unwrap();
        });
    }
}

//! A flag that hands on what was done before it was raised.

use super::shim::{AtomicBool, Ordering};

/// A flag.
///
/// # Thread safety
///
/// Any thread may raise it and look. What was done before it was raised is visible to whoever sees it raised.
#[derive(Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// Raises the flag.
    pub fn raise(&self) {
        // Pairs with `is_raised`.
        self.0.store(true, Ordering::Release);
    }

    /// Whether it is raised.
    pub fn is_raised(&self) -> bool {
        // Pairs with `raise`: on this load alone a reader goes on to what was written before.
        self.0.load(Ordering::Acquire)
    }

    /// Lowers the flag. Only while nobody else can look.
    pub fn lower(&self) {
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
    fn loom_a_raised_flag_shows_what_was_written_before() {
        loom::model(|| {
            let shared = Arc::new((Flag::default(), UnsafeCell::new(0)));
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // SAFETY: the other thread looks only when the flag is raised; loom checks that.
                    shared.1.with_mut(|value| unsafe { *value = 7 });
                    shared.0.raise();
                })
            };
            if shared.0.is_raised() {
                // SAFETY: the writer is through; loom reports it if that is not enough.
                shared.1.with(|value| assert_eq!(unsafe { *value }, 7));
            }
            writer.join().unwrap();
        });
    }
}

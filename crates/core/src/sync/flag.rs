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
mod loom_tests;

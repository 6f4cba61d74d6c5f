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
mod loom_tests;

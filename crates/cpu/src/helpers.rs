//! How many workers help, beside those who have a permit.
//!
//! Helpers take no permits. So a caller that comes back while one is at work begins at once, and the
//! helper leaves after its chunk. A caller that had to wait for the helper would sleep, and waking takes
//! longer than many Commands.

use millstream_core::sync::shim::{AtomicUsize, Ordering};

/// The helpers at work. Nothing else is ordered by the count.
pub(crate) struct Helpers(AtomicUsize);

impl Helpers {
    pub fn new() -> Self {
        Helpers(AtomicUsize::new(0))
    }

    /// One more, if there is a core that neither a permit nor a helper uses.
    pub fn join(&self, free: usize) -> bool {
        let mut count = self.0.load(Ordering::Relaxed);
        while count < free {
            match self.0.compare_exchange_weak(
                count,
                count + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(current) => count = current,
            }
        }
        false
    }

    /// One less.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there are more than cores for them.
    pub fn are_too_many(&self, free: usize) -> bool {
        self.0.load(Ordering::Relaxed) > free
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

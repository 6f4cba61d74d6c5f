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
mod tests {
    use super::*;

    #[test]
    fn helpers_join_while_cores_are_free() {
        let helpers = Helpers::new();
        assert!(!helpers.join(0));
        assert!(helpers.join(2) && helpers.join(2) && !helpers.join(2));
        assert!(!helpers.are_too_many(2) && helpers.are_too_many(1));
        helpers.leave();
        assert!(helpers.join(2));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Of two that try at once for one core, one gets it; the next one does after it has left.
    #[test]
    fn loom_a_core_has_one_helper() {
        loom::model(|| {
            let helpers = Arc::new(Helpers::new());
            let other = {
                let helpers = Arc::clone(&helpers);
                thread::spawn(move || helpers.join(1))
            };
            let here = helpers.join(1);
            let there = other.join().unwrap();
            assert!(here != there);
            helpers.leave();
            assert!(helpers.join(1));
        });
    }
}

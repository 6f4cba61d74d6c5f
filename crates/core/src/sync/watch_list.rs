//! Which of up to 64 queues a watcher has to poll, because threads sleep until they advance.
//!
//! A sleeper increments the count of a queue and then adds the queue. The watcher removes a queue and then checks the
//! count again. Both change the same word, so the second sees the first, and no sleeper is left without a watcher.

use super::shim::{AtomicU64, Ordering};

/// Queues by bit.
///
/// # Thread safety
///
/// Any thread may add. Removing is for the watcher.
#[derive(Debug, Default)]
pub struct WatchList(AtomicU64);

impl WatchList {
    /// Adds a queue, whose count of sleepers was incremented before. True if the list was empty: the watcher may be
    /// parked.
    pub fn add(&self, id: u32) -> bool {
        // Pairs with `remove_unless`, which then sees the count.
        self.0.fetch_or(1 << id, Ordering::Release) == 0
    }

    /// All queues, by bit.
    pub fn all(&self) -> u64 {
        // Relaxed: the watcher reads it again and again, and is unparked.
        self.0.load(Ordering::Relaxed)
    }

    /// Removes a queue without sleepers.
    pub fn remove_unless(&self, id: u32, has_sleepers: impl Fn() -> bool) {
        if has_sleepers() {
            return;
        }
        // Pairs with `add`.
        self.0.fetch_and(!(1 << id), Ordering::Acquire);
        // A sleeper may have come between the check and the removal.
        if has_sleepers() {
            self.0.fetch_or(1 << id, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

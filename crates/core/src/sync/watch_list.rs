//! Which of up to 64 things a watcher has to look at, because somebody sleeps for them.
//!
//! A sleeper counts itself in and then adds the thing; the watcher removes a thing and then looks at the count
//! again. Both change the same word, so whoever comes second reads from the first, and no sleeper is left
//! without a watcher.

use super::shim::{AtomicU64, Ordering};

/// Things by bit.
///
/// # Thread safety
///
/// Any thread may add. Removing is for the watcher.
#[derive(Debug, Default)]
pub struct WatchList(AtomicU64);

impl WatchList {
    /// Adds a thing, whose count of sleepers is up already. True when the list was empty, so that the watcher
    /// may be asleep.
    pub fn add(&self, id: u32) -> bool {
        // Pairs with `remove_unless`, which then sees the count.
        self.0.fetch_or(1 << id, Ordering::Release) == 0
    }

    /// All things, by bit.
    pub fn all(&self) -> u64 {
        // Relaxed: the watcher looks again and again, and is woken from its sleep.
        self.0.load(Ordering::Relaxed)
    }

    /// Removes a thing that nobody sleeps for.
    pub fn remove_unless(&self, id: u32, has_sleepers: impl Fn() -> bool) {
        if has_sleepers() {
            return;
        }
        // Pairs with `add`.
        self.0.fetch_and(!(1 << id), Ordering::Acquire);
        // One may have come between the look and the removal.
        if has_sleepers() {
            self.0.fetch_or(1 << id, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

//! Who has a slot of a pool, where having one is an affinity that ends when somebody else needs the slot.
//!
//! One word per slot: an epoch that grows whenever an affinity ends, how often the slot is pinned, and whether
//! somebody has it by affinity. An owner keeps the epoch, and sees by it that the slot is no longer its own.

use super::shim::{AtomicU64, Ordering};

/// The slot is somebody's by affinity.
const HELD: u64 = 1;
/// The owner is gone. Whoever removes the last pin gives the slot back.
const LEFT: u64 = 2;
const PIN: u64 = 4;
const EPOCH: u64 = 1 << 32;

/// The state of one slot.
///
/// # Thread safety
///
/// Any thread may call anything at any time. So that those who wait notice every slot that becomes idle,
/// [`end`](Self::end) and [`unpin`](Self::unpin) are called under the lock that guards what makes the slot busy.
#[derive(Debug)]
pub struct Affinity {
    word: AtomicU64,
    /// What its user had done when the affinity began; see [`begin`](Self::begin).
    begun_at: AtomicU64,
}

impl Default for Affinity {
    fn default() -> Self {
        Self { word: AtomicU64::new(0), begun_at: AtomicU64::new(0) }
    }
}

impl Affinity {
    /// Begins the affinity of whoever has just taken the slot. `done` is how far the slot's work has come: the
    /// slot counts as used once it has come further. Returns the epoch.
    pub fn begin(&self, done: u64) -> u32 {
        self.begun_at.store(done, Ordering::Relaxed);
        // Pairs with `idle`, which reads `begun_at` when it sees this.
        epoch_of(self.word.fetch_or(HELD, Ordering::Release))
    }

    /// Whether the affinity of that epoch has not ended.
    pub fn is(&self, epoch: u32) -> bool {
        epoch_of(self.word.load(Ordering::Relaxed)) == epoch
    }

    /// The epoch of a slot that can be taken from its owner, and whether it was used in it.
    pub fn idle(&self, done: u64) -> Option<(u32, bool)> {
        // Pairs with `begin`.
        let word = self.word.load(Ordering::Acquire);
        is_free_to_end(word)
            .then(|| (epoch_of(word), self.begun_at.load(Ordering::Relaxed) != done))
    }

    /// Ends the affinity, unless there is none or the slot is pinned. True when the caller has the slot now.
    pub fn end(&self) -> bool {
        self.change(|word| is_free_to_end(word).then(|| ended(word))).is_some()
    }

    /// Ends the affinity of that epoch, because its owner goes. True when the caller has the slot now.
    pub fn leave(&self, epoch: u32) -> bool {
        let before = self.change(|word| match word {
            _ if epoch_of(word) != epoch || word & HELD == 0 => None,
            _ if is_free_to_end(word) => Some(ended(word)),
            _ => Some(ended(word) | LEFT),
        });
        before.is_some_and(is_free_to_end)
    }

    /// Keeps the slot from being taken from its owner.
    pub fn pin(&self) {
        self.word.fetch_add(PIN, Ordering::Relaxed);
    }

    /// Removes a pin. True when that was the last one of an owner that is gone: the caller has the slot now.
    pub fn unpin(&self) -> bool {
        let before = self.change(|word| match word - PIN {
            rest if is_pinned(rest) => Some(rest),
            rest => Some(rest & !LEFT),
        });
        before.is_some_and(|before| before & LEFT != 0 && !is_pinned(before - PIN))
    }

    fn change(&self, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        // Pairs with itself: whoever has the slot now sees what was done by whoever changed it before.
        self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).ok()
    }
}

fn epoch_of(word: u64) -> u32 {
    (word / EPOCH) as u32
}

fn is_pinned(word: u64) -> bool {
    word % EPOCH >= PIN
}

fn is_free_to_end(word: u64) -> bool {
    word & HELD != 0 && !is_pinned(word)
}

/// The next epoch, without an owner.
fn ended(word: u64) -> u64 {
    (word & !HELD).wrapping_add(EPOCH)
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

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
mod tests {
    use super::*;

    #[test]
    fn an_affinity_ends_once_and_its_owner_sees_it() {
        let slot = Affinity::default();
        assert!(!slot.end(), "nobody had it");
        let first = slot.begin(7);
        assert_eq!((slot.idle(7), slot.idle(8)), (Some((first, false)), Some((first, true))));
        assert!(slot.end() && !slot.end());
        assert!(!slot.is(first) && !slot.leave(first), "it is another's by now");
        let second = slot.begin(8);
        assert!(slot.is(second) && slot.leave(second) && !slot.is(second));
    }

    #[test]
    fn a_pinned_slot_is_not_taken_from_its_owner() {
        let slot = Affinity::default();
        let epoch = slot.begin(0);
        slot.pin();
        slot.pin();
        assert!(!slot.end() && slot.idle(0).is_none() && slot.is(epoch));
        assert!(!slot.unpin() && !slot.end());
        assert!(!slot.unpin() && slot.end());
    }

    #[test]
    fn the_last_pin_gives_back_what_its_owner_left() {
        let slot = Affinity::default();
        let epoch = slot.begin(0);
        slot.pin();
        slot.pin();
        assert!(!slot.leave(epoch), "it is pinned");
        assert!(!slot.unpin() && slot.unpin());
        assert!(slot.leave(slot.begin(0)), "as good as new");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::super::shim::lock;
    use super::super::{FairPool, Slots};
    use super::*;

    /// A pool of one slot, which has a lock and work under it, as a stream has.
    struct Model {
        pool: FairPool<Slots>,
        slot: Affinity,
        busy: Mutex<bool>,
    }

    impl Model {
        /// One slot that somebody has, and that is busy.
        fn held() -> (Arc<Self>, u32) {
            let model = Self {
                pool: FairPool::slots(1),
                slot: Affinity::default(),
                busy: Mutex::new(true),
            };
            model.pool.try_take().unwrap();
            let epoch = model.slot.begin(0);
            (Arc::new(model), epoch)
        }

        /// What a waiter does once it is in the queue.
        fn reclaim(&self) {
            let busy = lock(&self.busy);
            if !*busy && self.slot.end() {
                self.pool.put(0);
            }
        }

        /// What an owner does when its work is submitted.
        fn submit(&self) {
            let mut busy = lock(&self.busy);
            *busy = false;
            if self.pool.has_waiters() && self.slot.end() {
                self.pool.put(0);
            }
        }

        fn wait_for_it(&self) {
            assert_eq!(self.pool.take_with(None, || self.reclaim()), Some(0));
            self.slot.begin(0);
        }
    }

    /// A waiter that comes while the owner becomes idle is served, and the owner sees that it was.
    #[test]
    fn loom_an_idle_slot_reaches_who_waits() {
        loom::model(|| {
            let (model, epoch) = Model::held();
            let waiter = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.wait_for_it())
            };
            model.submit();
            waiter.join().unwrap();
            assert!(!model.slot.is(epoch) && !model.pool.has_waiters());
            assert_eq!(model.pool.free_word(), 0, "one owner at a time");
        });
    }

    /// The same where the owner ends, which gives the slot back by itself.
    #[test]
    fn loom_a_slot_is_given_back_or_taken_never_both() {
        loom::model(|| {
            let (model, epoch) = Model::held();
            let waiter = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.wait_for_it())
            };
            model.submit();
            if model.slot.leave(epoch) {
                model.pool.put(0);
            }
            waiter.join().unwrap();
            assert_eq!(model.pool.free_word(), 0);
        });
    }

    /// The end of a scope is noticed just as well.
    #[test]
    fn loom_an_unpinned_slot_reaches_who_waits() {
        loom::model(|| {
            let (model, _) = Model::held();
            *lock(&model.busy) = false;
            model.slot.pin();
            let waiter = {
                let model = Arc::clone(&model);
                thread::spawn(move || model.wait_for_it())
            };
            {
                let _busy = lock(&model.busy);
                assert!(!model.slot.unpin());
                if model.pool.has_waiters() && model.slot.end() {
                    model.pool.put(0);
                }
            }
            waiter.join().unwrap();
        });
    }

    /// A slot that was just taken does not count as used because of what its last user did.
    #[test]
    fn loom_a_slot_begins_unused() {
        loom::model(|| {
            let slot = Arc::new(Affinity::default());
            let owner = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.begin(5))
            };
            if let Some((_, used)) = slot.idle(5) {
                assert!(!used);
            }
            owner.join().unwrap();
        });
    }

    /// An owner goes while the slot is pinned elsewhere: whoever removes the pin, or the owner, gives the slot
    /// back, and has seen what the other did with it.
    #[test]
    fn loom_who_gives_a_slot_back_sees_what_the_other_did() {
        use loom::cell::UnsafeCell;
        loom::model(|| {
            let shared = Arc::new((Affinity::default(), [UnsafeCell::new(0), UnsafeCell::new(0)]));
            let epoch = shared.0.begin(0);
            shared.0.pin();
            let use_it = |shared: &(Affinity, [UnsafeCell<u32>; 2]), own: usize| {
                // SAFETY: until it gives up the slot, each has a part for itself.
                shared.1[own].with_mut(|value| unsafe { *value += 1 });
            };
            let give_back = |shared: &(Affinity, [UnsafeCell<u32>; 2])| {
                for value in &shared.1 {
                    // SAFETY: nobody else has the slot; loom reports it if that is not enough.
                    value.with_mut(|value| unsafe { *value += 1 });
                }
            };
            let pinner = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    use_it(&shared, 0);
                    let last = shared.0.unpin();
                    if last {
                        give_back(&shared);
                    }
                    last
                })
            };
            use_it(&shared, 1);
            let gone = shared.0.leave(epoch);
            if gone {
                give_back(&shared);
            }
            assert!(gone != pinner.join().unwrap(), "one of them has it");
        });
    }
}

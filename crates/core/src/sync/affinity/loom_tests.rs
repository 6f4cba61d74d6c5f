use std::time::Duration;

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
        let model =
            Self { pool: FairPool::slots(1), slot: Affinity::default(), busy: Mutex::new(true) };
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
        assert_eq!(self.pool.take_with(None, |_, _| Duration::ZERO, || self.reclaim()), Some(0));
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

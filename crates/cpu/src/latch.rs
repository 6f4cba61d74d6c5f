//! How the owner of a parallel-for waits for the workers that help it.
//!
//! The count lies on the owner's stack, and is gone as soon as the owner sees that nobody is left. What the
//! owner sleeps on lies elsewhere, so that the last helper may still touch it. It is a lock and a condition
//! variable, not `std::thread::park`: the park token of the thread belongs to the program.

use millstream_core::sync::shim::{
    AtomicUsize, Condvar, Mutex, Ordering, lock, spin_loop, wait_until,
};

/// How long the owner spins for helpers in their last chunk before it sleeps: about as long as a chunk
/// takes. Its permit is its own until then.
const SPINS: u32 = if cfg!(loom) { 0 } else { 1000 };

/// Helpers that may still touch a piece of work.
pub(crate) struct Latch(AtomicUsize);

/// What an owner sleeps on. One at a time does; others may be woken for nothing.
pub(crate) struct OwnerParker {
    asleep: Mutex<()>,
    changed: Condvar,
}

impl OwnerParker {
    pub fn new() -> Self {
        OwnerParker { asleep: Mutex::new(()), changed: Condvar::new() }
    }
}

impl Latch {
    pub fn new() -> Self {
        Latch(AtomicUsize::new(0))
    }

    /// Helpers, as seen by the owner.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// One helper more. Only the owner adds any.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The owner takes back a helper that it added and nobody became.
    pub fn take_back(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// One helper less. Everything that it did is seen by the owner that waits. The latch may be gone
    /// when this returns, the parker of its owner must not be.
    pub fn leave(&self, parker: &OwnerParker) {
        // Pairs with `wait`; the steps of other helpers keep the release sequence.
        if self.0.fetch_sub(1, Ordering::Release) == 1 {
            // The owner looks at the count under this lock before it sleeps, so it has seen the change
            // or sleeps already.
            drop(lock(&parker.asleep));
            parker.changed.notify_one();
        }
    }

    /// Waits until no helper is left.
    pub fn wait(&self, parker: &OwnerParker) {
        // Pairs with `leave`.
        let is_open = || self.0.load(Ordering::Acquire) == 0;
        for _ in 0..SPINS {
            if is_open() {
                return;
            }
            spin_loop();
        }
        if is_open() {
            return;
        }
        let mut asleep = lock(&parker.asleep);
        while !is_open() {
            (asleep, _) = wait_until(&parker.changed, asleep, None);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Were the thread parked, the token would be used up.
    #[test]
    fn the_owners_own_park_token_stays() {
        let (latch, parker) = (Latch::new(), OwnerParker::new());
        let token_seen = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let owner = scope.spawn(|| {
                std::thread::current().unpark();
                latch.add();
                let helper = scope.spawn(|| {
                    std::thread::yield_now();
                    latch.leave(&parker);
                });
                latch.wait(&parker);
                // Without the token this would never return.
                std::thread::park();
                token_seen.store(true, Ordering::Relaxed);
                helper.join().unwrap();
            });
            owner.join().unwrap();
        });
        assert!(token_seen.into_inner());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// The owner goes on when the last of two helpers has left, asleep or not, and sees what they did.
    #[test]
    fn loom_the_owner_leaves_after_the_last_helper() {
        loom::model(|| {
            let shared = Arc::new((
                Latch::new(),
                OwnerParker::new(),
                [UnsafeCell::new(0), UnsafeCell::new(0)],
            ));
            let helpers: Vec<_> = (0..2)
                .map(|index| {
                    shared.0.add();
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        // SAFETY: the owner looks after this helper has left.
                        shared.2[index].with_mut(|done| unsafe { *done = 1 });
                        shared.0.leave(&shared.1);
                    })
                })
                .collect();
            shared.0.wait(&shared.1);
            for done in &shared.2 {
                // SAFETY: every helper has left.
                assert_eq!(done.with(|done| unsafe { *done }), 1);
            }
            for helper in helpers {
                helper.join().unwrap();
            }
        });
    }

    /// A late notification of one piece of work does not end the wait for the next.
    #[test]
    fn loom_a_bed_serves_one_owner_after_another() {
        loom::model(|| {
            let parker = Arc::new(OwnerParker::new());
            for _ in 0..2 {
                let latch = Arc::new(Latch::new());
                latch.add();
                let helper = {
                    let (latch, parker) = (Arc::clone(&latch), Arc::clone(&parker));
                    thread::spawn(move || latch.leave(&parker))
                };
                latch.wait(&parker);
                assert_eq!(latch.count(), 0);
                helper.join().unwrap();
            }
        });
    }
}

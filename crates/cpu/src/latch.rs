//! How the owner of a parallel-for waits for the workers that help it.
//!
//! The count lies on the owner's stack, and is gone as soon as the owner sees that nobody is left. What the
//! owner sleeps on lies elsewhere, so that the last helper may still touch it. It is a lock and a condition
//! variable, not `std::thread::park`: the park token of the thread belongs to the program.

use millstream_core::sync::shim::{
    AtomicUsize, Condvar, Mutex, Ordering, lock, spin_loop, wait_until,
};

/// How long the owner spins for helpers in their last chunk before it sleeps: as long as most chunks take, a tenth of a
/// millisecond or so. Its permit is its own until then, and waking up would take about as long.
const SPINS: u32 = if cfg!(loom) { 0 } else { 10_000 };

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
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

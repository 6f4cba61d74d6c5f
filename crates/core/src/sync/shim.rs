//! `std` in programs, `loom` when the crate is built with `--cfg loom`, and with `--cfg schedule` `std` with
//! time lost on the way (see [`schedule`](super::schedule)).

#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub use std::hint::spin_loop;
#[cfg(not(loom))]
pub use std::sync::Arc;
use std::time::Instant;

#[cfg(not(loom))]
pub use super::schedule::{
    AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence,
};

/// Locks; a panic of an earlier holder is no reason to fail, since no holder runs foreign code.
#[cfg_attr(schedule, track_caller)]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits for a notification, at most until the deadline. Returns false when the deadline passed.
///
/// loom has no clock: there a deadline is never reached, so a wait that is not notified shows up as a
/// deadlock.
#[cfg_attr(schedule, track_caller)]
pub fn wait_until<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> (MutexGuard<'a, T>, bool) {
    let Some(deadline) = deadline.filter(|_| !cfg!(loom)) else {
        let guard = condition.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
        return (guard, true);
    };
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return (guard, false);
    }
    let (guard, _) =
        condition.wait_timeout(guard, left).unwrap_or_else(std::sync::PoisonError::into_inner);
    (guard, true)
}

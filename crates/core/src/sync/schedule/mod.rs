//! `std`'s locks and atomics in programs. In a build with `--cfg schedule` every operation on them is a *point*
//! at which a thread may lose time, so that threads meet in ways in which they otherwise hardly ever would.
//!
//! What a thread does at its points follows from a seed, the thread's name and how many points it has passed.
//! What happens between threads is still up to the system, so a seed makes an interleaving likely, not certain.
//! `tests/schedules` runs its scenarios with many seeds; see `scripts/schedules.sh`.
//!
//! Parts that loom looks at use the [shim](super::shim), which is this module unless it is loom. What no loom
//! test reaches uses this module itself.

#[cfg(schedule)]
mod delay;
#[cfg(schedule)]
mod types;

#[cfg(not(schedule))]
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(not(schedule))]
pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[cfg(schedule)]
pub use self::types::*;

/// Whether this is a build in which threads lose time.
pub const ENABLED: bool = cfg!(schedule);

/// Begins a schedule: from here on threads lose time as the seed says. Nothing in other builds.
#[inline]
pub fn begin(seed: u64) {
    #[cfg(schedule)]
    delay::begin(seed);
    let _ = seed;
}

/// A place where a thread may lose time that no lock or atomic is at. Nothing in other builds.
#[inline]
#[track_caller]
pub fn point() {
    #[cfg(schedule)]
    delay::point();
}

/// Where each thread was seen last in this schedule, for whoever looks at one that hangs. Empty in other
/// builds.
pub fn threads() -> Vec<String> {
    #[cfg(schedule)]
    return delay::threads();
    #[cfg(not(schedule))]
    Vec::new()
}

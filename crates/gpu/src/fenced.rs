//! Values that are read and set by calls of which nobody says what they order: counters behind a driver's functions.
//!
//! The call itself may be a plain load or store. On ARM what is read behind such a load may be older than the value, and what was
//! written before such a store may come later than it.

use millstream_core::sync::shim::{Ordering, fence};

/// Reads a value. What was written before it was set is visible behind this, if it was set with [`release`] or by a device that
/// orders its writes.
pub fn acquire<T>(read: impl FnOnce() -> T) -> T {
    let value = read();
    fence(Ordering::Acquire);
    value
}

/// Sets a value. What was written before is visible to who sees it with [`acquire`].
pub fn release<T>(set: impl FnOnce() -> T) -> T {
    fence(Ordering::Release);
    set()
}

#[cfg(all(test, loom))]
mod loom_tests;

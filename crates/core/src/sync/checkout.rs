//! An exclusive checkout: at most one holder at a time. One thread takes it, any thread releases it.

use super::shim::{AtomicBool, Ordering};

/// How the flag is released. A build with `--cfg planted_race` gets this wrong on purpose, so that CI
/// can see loom notice it.
const RELEASE: Ordering = if cfg!(planted_race) { Ordering::Relaxed } else { Ordering::Release };

/// Whether a thing is checked out.
///
/// # Thread safety
///
/// Any thread may take and release. What was done before the release is visible to the next holder.
#[derive(Debug)]
pub struct Checkout {
    out: AtomicBool,
}

impl Default for Checkout {
    fn default() -> Self {
        Self::new()
    }
}

impl Checkout {
    /// Not checked out.
    pub fn new() -> Self {
        Self { out: AtomicBool::new(false) }
    }

    /// Checks the thing out; `false` if it is out already.
    pub fn take(&self) -> bool {
        // Pairs with `release`.
        let (have, take) = (Ordering::Relaxed, Ordering::Acquire);
        self.out.compare_exchange(false, true, take, have).is_ok()
    }

    /// Returns the thing. Only for its holder, once.
    pub fn release(&self) {
        // Pairs with `take` and `is_out`.
        self.out.store(false, RELEASE);
    }

    /// Whether it is checked out. If not, what the last holder did is visible.
    pub fn is_out(&self) -> bool {
        // Pairs with `release`.
        self.out.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;

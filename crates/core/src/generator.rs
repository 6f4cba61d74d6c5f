//! A source of random numbers that threads can share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Hands out parts of one random sequence. Two calls never get the same part, from any thread.
///
/// The numbers themselves are made on the device, by a Command: a function of the seed and of the place
/// in the sequence.
#[derive(Debug)]
pub struct Generator {
    seed: u64,
    next: AtomicU64,
}

impl Generator {
    /// A sequence that the seed decides.
    pub fn new(seed: u64) -> Self {
        Self { seed, next: AtomicU64::new(0) }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The place of the first of `count` numbers that nobody else gets.
    pub fn reserve(&self, count: u64) -> u64 {
        self.next.fetch_add(count, Ordering::Relaxed)
    }
}

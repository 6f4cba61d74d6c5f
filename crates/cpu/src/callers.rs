//! Who has called lately.
//!
//! Two callers that take turns with the device leave a core free for the moment between two calls. If a
//! helper of the other got it, the caller that comes back would wait for the core, and both would be slower
//! than with a core each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Microseconds for which a core is kept for a caller that has left.
const KEPT: u64 = 500;

/// Bits of a word that name a stream; there are at most 64.
const STREAM_BITS: u32 = 6;
const STREAM_MASK: u64 = (1 << STREAM_BITS) - 1;

/// The last callers that left, and when. Words in which the last writer wins: they are hints, and nothing is ordered by them.
pub(crate) struct Callers {
    start: Instant,
    /// Microseconds since the start plus 1, and the stream; 0 if nobody has called.
    last: AtomicU64,
    /// The one before, of another stream: who leaves twice in a row does not hide it.
    before: AtomicU64,
}

impl Callers {
    pub fn new() -> Self {
        Callers { start: Instant::now(), last: AtomicU64::new(0), before: AtomicU64::new(0) }
    }

    /// A caller has what it waited for.
    pub fn leaves(&self, stream: u32) {
        self.leaves_at(stream, self.now());
    }

    /// Whether a caller of another stream will likely be back at once.
    pub fn expects_another(&self, stream: u32) -> bool {
        self.expects_another_at(stream, self.now())
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn leaves_at(&self, stream: u32, time: u64) {
        let last = self.last.load(Ordering::Relaxed);
        if last > 0 && last & STREAM_MASK != u64::from(stream) {
            self.before.store(last, Ordering::Relaxed);
        }
        self.last.store((time + 1) << STREAM_BITS | u64::from(stream), Ordering::Relaxed);
    }

    fn expects_another_at(&self, stream: u32, time: u64) -> bool {
        let is_expected = |word: &AtomicU64| {
            let (left, who) = {
                let word = word.load(Ordering::Relaxed);
                (word >> STREAM_BITS, word & STREAM_MASK)
            };
            left > 0 && who != u64::from(stream) && time + 1 < left + KEPT
        };
        is_expected(&self.last) || is_expected(&self.before)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

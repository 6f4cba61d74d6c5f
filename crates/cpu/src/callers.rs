//! Who has called lately.
//!
//! Two callers that take turns with the device leave a core free for the moment between two calls. Were
//! it given to a helper of the other, the one that comes back would wait for it: both would be slower
//! than with a core each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Microseconds for which a core is kept for a caller that has left.
const KEPT: u64 = 500;

/// Bits of a word that name a stream; there are at most 64.
const STREAM_BITS: u32 = 6;

/// The last caller that left, and when. A single word, in which the last writer wins: it is a hint, and
/// nothing is ordered by it.
pub(crate) struct Callers {
    start: Instant,
    /// Microseconds since the start plus 1, and the stream; 0 if nobody has called.
    last: AtomicU64,
}

impl Callers {
    pub fn new() -> Self {
        Callers { start: Instant::now(), last: AtomicU64::new(0) }
    }

    /// A caller has what it waited for.
    pub fn leaves(&self, stream: u32) {
        self.leaves_at(stream, self.now());
    }

    /// Whether somebody else than the caller of a stream will likely be back at once.
    pub fn expects_another(&self, stream: u32) -> bool {
        self.expects_another_at(stream, self.now())
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn leaves_at(&self, stream: u32, time: u64) {
        self.last.store((time + 1) << STREAM_BITS | u64::from(stream), Ordering::Relaxed);
    }

    fn expects_another_at(&self, stream: u32, time: u64) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        let (left, who) = (last >> STREAM_BITS, last & ((1 << STREAM_BITS) - 1));
        left > 0 && who != u64::from(stream) && time + 1 < left + KEPT
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

//! Streams that wait for another one to come further.
//!
//! A blocked stream adds itself and then checks the other's progress. The other makes progress and then
//! checks for streams to notify. One of the two always sees the other, so no stream is forgotten.

use millstream_core::sync::shim::{AtomicU64, Ordering, fence};

/// The streams, by bit, to notify when one has come further.
pub(crate) struct Dependents(AtomicU64);

impl Dependents {
    pub fn new() -> Self {
        Dependents(AtomicU64::new(0))
    }

    /// Adds a stream and then checks: `passed` says whether what it waits for is through. If it is not,
    /// whoever gets through with it will find the stream here.
    pub fn add_and_check(&self, stream: u32, passed: impl FnOnce() -> bool) -> bool {
        self.0.fetch_or(1 << stream, Ordering::AcqRel);
        // Orders the bit before the check; see `take`.
        fence(Ordering::SeqCst);
        passed()
    }

    /// Takes all streams. The caller has told its progress before.
    pub fn take(&self) -> impl Iterator<Item = u32> {
        // Either this load sees the bit of a stream, or that stream's check sees the progress.
        fence(Ordering::SeqCst);
        let mut streams = self.0.load(Ordering::Relaxed);
        if streams != 0 {
            streams = self.0.swap(0, Ordering::AcqRel);
        }
        std::iter::from_fn(move || {
            let stream = (streams != 0).then(|| streams.trailing_zeros())?;
            streams &= streams - 1;
            Some(stream)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

//! How much a waiting thread executes itself.
//!
//! A Command that has begun runs to its end. So a thread that waits until a deadline begins one only if it
//! ends in time even at a low speed. The rest is left to the workers, and the thread only waits.

use std::time::{Duration, Instant};

/// Operations of a second, as a Command counts its work: fewer than a single core does with any kernel.
///
/// With 30 s a caller begins a Command of up to 8 billion of them, 128 billion multiply-adds of a product: more than
/// any layer of a usual model has. The device's usual time is 20 times that.
const PER_SECOND: u64 = 1 << 28;

/// Operations between two readings of the clock: milliseconds, so that the clock costs nothing.
const CLOCK_INTERVAL: u64 = 1 << 22;

/// The work that may be begun before a deadline.
pub(crate) struct WorkBudget {
    deadline: Option<Instant>,
    /// What may be begun without reading the clock again.
    left: u64,
}

impl WorkBudget {
    /// All work, for a thread that nobody waits for.
    pub fn unlimited() -> Self {
        WorkBudget { deadline: None, left: u64::MAX }
    }

    /// What can be done between `now` and a deadline.
    pub fn until(deadline: Instant, now: Instant) -> Self {
        let left = work_within(deadline.saturating_duration_since(now)).min(CLOCK_INTERVAL);
        WorkBudget { deadline: Some(deadline), left }
    }

    /// Spends the work of a Command, if there is time for it.
    #[inline]
    pub fn try_spend(&mut self, work: impl FnOnce() -> u64) -> bool {
        let Some(deadline) = self.deadline else { return true };
        let work = work();
        if work <= self.left {
            self.left -= work;
            return true;
        }
        self.try_spend_at(work, deadline, Instant::now())
    }

    fn try_spend_at(&mut self, work: u64, deadline: Instant, now: Instant) -> bool {
        let within = work_within(deadline.saturating_duration_since(now));
        let fits = work <= within && within > 0;
        self.left = if fits { (within - work).min(CLOCK_INTERVAL) } else { 0 };
        fits
    }
}

fn work_within(time: Duration) -> u64 {
    let operations = time.as_nanos() * u128::from(PER_SECOND) / 1_000_000_000;
    u64::try_from(operations).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests;

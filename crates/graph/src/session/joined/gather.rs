//! Calls of a thread that are counted together.
//!
//! Counters that all threads add to for every call would cost short calls a few percent.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// So many calls are counted at once, or those of so much time.
const CALLS: usize = 8;
const TIME: Duration = Duration::from_millis(1);

thread_local! {
    /// For whom calls were gathered, how many, and since when.
    static GATHERED: Cell<(usize, usize, Option<Instant>)> = const { Cell::new((0, 0, None)) };
}

/// Notes a call of the calling thread, and says how many are to be counted now. A thread that goes on to calls of another `owner` may
/// leave some uncounted.
pub(super) fn calls(owner: usize, now: Instant) -> Option<usize> {
    GATHERED.with(|gathered| {
        let (known, calls, since) = gathered.get();
        let (calls, since) = if known == owner { (calls + 1, since) } else { (1, None) };
        let is_due = since.is_none_or(|since| now.saturating_duration_since(since) > TIME);
        if calls < CALLS && !is_due {
            gathered.set((owner, calls, since));
            return None;
        }
        gathered.set((owner, 0, Some(now)));
        Some(calls)
    })
}

#[cfg(test)]
mod tests;

//! Calls of a thread that are counted together.
//!
//! Counters that all threads add to for every call would cost short calls a few percent.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// So many calls are counted at once, or those of so much time.
const CALLS: usize = 8;
pub(super) const TIME: Duration = Duration::from_millis(1);

thread_local! {
    static GATHERED: Cell<Gathered> = const { Cell::new(Gathered::NONE) };
}

/// Calls that were gathered.
#[derive(Clone, Copy)]
struct Gathered {
    /// For whom.
    owner: usize,
    calls: usize,
    rows: usize,
    since: Option<Instant>,
}

impl Gathered {
    const NONE: Self = Self { owner: 0, calls: 0, rows: 0, since: None };
}

/// Notes a call of the calling thread of so many rows, and says how many rows are to be counted now. A thread that goes on to calls of
/// another `owner` may leave some uncounted.
pub(super) fn calls(owner: usize, rows: usize, now: Instant) -> Option<usize> {
    GATHERED.with(|gathered| {
        let known = gathered.get();
        let (calls, rows, since) = match known.owner == owner {
            true => (known.calls + 1, known.rows + rows, known.since),
            false => (1, rows, None),
        };
        let is_due = since.is_none_or(|since| now.saturating_duration_since(since) > TIME);
        if calls < CALLS && !is_due {
            gathered.set(Gathered { owner, calls, rows, since });
            return None;
        }
        gathered.set(Gathered { owner, calls: 0, rows: 0, since: Some(now) });
        Some(rows)
    })
}

#[cfg(test)]
mod tests;

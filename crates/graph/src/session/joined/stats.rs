//! Figures of calls that were joined.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Group;

/// How calls of a session were joined.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BatchingStats {
    /// How many batches there were of each number of calls: those of one call first.
    pub sizes: Vec<u64>,
    /// Rows that these batches had in all. A call of several rows counts as one where such calls are joined only with those of as many.
    pub rows: u64,
    /// Time that calls of batches waited before their batch began, in all.
    pub queue_time: Duration,
    /// Time that batches took, in all, from when they began until their answers were there.
    pub run_time: Duration,
    /// Calls that found the queue full and got the error.
    pub rejected: u64,
    /// Calls that found the queue full and [waited](super::super::Batching::wait_when_full) for room.
    pub waited_for_room: u64,
    /// Calls that were given up before they had an answer.
    pub canceled: u64,
    /// Calls whose deadline passed before they had an answer.
    pub late: u64,
    /// Batches that failed and were run again call by call, so that only the calls that are wrong fail.
    pub repeated: u64,
    /// Batches that were also run call by call, to [check](super::super::Batching::check_assumption) an assumption.
    pub checked: u64,
    /// How many batches may be in flight now: of the shapes that are called, the largest number. None if calls run by themselves,
    /// because nobody else calls, because they cannot be joined, or because joining does not pay.
    pub in_flight: Option<usize>,
    /// Why calls are not joined, for each set of shapes for which they are not.
    pub not_joined: Vec<String>,
}

impl BatchingStats {
    /// Batches in all.
    pub fn batches(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Calls in them.
    pub fn calls(&self) -> u64 {
        self.sizes.iter().zip(1..).map(|(batches, calls)| batches * calls).sum()
    }
}

impl fmt::Display for BatchingStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (batches, calls) = (self.batches(), self.calls());
        let each = if calls == 0 {
            Duration::ZERO
        } else {
            self.queue_time / calls.min(u64::from(u32::MAX)) as u32
        };
        write!(f, "{calls} calls in {batches} batches")?;
        if self.rows > calls {
            write!(f, " of {} rows", self.rows)?;
        }
        if batches > 0 {
            let largest = self.sizes.iter().rposition(|&count| count > 0).map_or(0, |at| at + 1);
            let mean = calls as f64 / batches as f64;
            let run = self.run_time / batches.min(u64::from(u32::MAX)) as u32;
            write!(f, " ({mean:.1} each, up to {largest}; {run:?}), {each:?} in the queue")?;
        }
        if let Some(in_flight) = self.in_flight {
            write!(f, ", {in_flight} in flight")?;
        }
        for (count, what) in [
            (self.rejected, "rejected"),
            (self.waited_for_room, "waited for room"),
            (self.canceled, "canceled"),
            (self.late, "late"),
            (self.repeated, "repeated"),
            (self.checked, "checked"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        for reason in &self.not_joined {
            write!(f, "; not joined: {reason}")?;
        }
        Ok(())
    }
}

/// Counters that leaders add to, once per batch. Nothing is published by them.
pub(in crate::session) struct Counters {
    sizes: Vec<AtomicU64>,
    rows: AtomicU64,
    queue_nanoseconds: AtomicU64,
    run_nanoseconds: AtomicU64,
    rejected: AtomicU64,
    waited_for_room: AtomicU64,
    canceled: AtomicU64,
    late: AtomicU64,
    repeated: AtomicU64,
    checked: AtomicU64,
}

impl Counters {
    pub(super) fn new(most: usize) -> Self {
        Self {
            sizes: (0..most).map(|_| AtomicU64::new(0)).collect(),
            rows: AtomicU64::new(0),
            queue_nanoseconds: AtomicU64::new(0),
            run_nanoseconds: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            waited_for_room: AtomicU64::new(0),
            canceled: AtomicU64::new(0),
            late: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            checked: AtomicU64::new(0),
        }
    }

    /// Counts a batch of so many rows by when its calls came, and when it began and ended.
    pub(super) fn batch(
        &self,
        entered: impl ExactSizeIterator<Item = Instant>,
        rows: usize,
        begun: Instant,
        ended: Instant,
    ) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        if let Some(count) = entered.len().checked_sub(1).and_then(|at| self.sizes.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let waited: u128 =
            entered.map(|entered| begun.saturating_duration_since(entered).as_nanos()).sum();
        let waited = u64::try_from(waited).unwrap_or(u64::MAX);
        self.queue_nanoseconds.fetch_add(waited, Ordering::Relaxed);
        let ran = ended.saturating_duration_since(begun).as_nanos();
        self.run_nanoseconds.fetch_add(u64::try_from(ran).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn waited_for_room(&self) {
        self.waited_for_room.fetch_add(1, Ordering::Relaxed);
    }

    pub fn canceled(&self) {
        self.canceled.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn repeated(&self) {
        self.repeated.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn checked(&self) {
        self.checked.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self, groups: &[Arc<Group>]) -> BatchingStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BatchingStats {
            sizes: self.sizes.iter().map(read).collect(),
            rows: read(&self.rows),
            queue_time: Duration::from_nanos(read(&self.queue_nanoseconds)),
            run_time: Duration::from_nanos(self.run_nanoseconds.load(Ordering::Relaxed)),
            rejected: read(&self.rejected),
            waited_for_room: read(&self.waited_for_room),
            canceled: read(&self.canceled),
            late: read(&self.late),
            repeated: read(&self.repeated),
            checked: read(&self.checked),
            in_flight: groups.iter().filter_map(|group| group.in_flight()).max(),
            not_joined: groups
                .iter()
                .filter_map(|group| group.obstacle().map(ToString::to_string))
                .collect(),
        }
    }
}

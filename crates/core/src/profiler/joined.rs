//! Calls that were run as one.

use std::collections::VecDeque;
use std::time::Instant;

use super::{Profiler, now_ns};

/// A batch of calls that were run as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinedSpan {
    /// How many calls it had.
    pub calls: usize,
    /// For how long they waited for it to begin: all of them together.
    pub queued_ns: u64,
    /// For how long the one waited that waited longest.
    pub longest_queued_ns: u64,
    /// When it began, see [`now_ns`].
    pub start_ns: u64,
    /// When its answers were there.
    pub end_ns: u64,
}

impl JoinedSpan {
    /// What it is called in traces and summaries.
    pub(super) fn name(&self) -> String {
        let plural = if self.calls == 1 { "" } else { "s" };
        format!("batch of {} call{plural}", self.calls)
    }

    /// For how long a call waited on average.
    pub(super) fn mean_queued_ns(&self) -> u64 {
        self.queued_ns / self.calls.max(1) as u64
    }
}

/// The batches of a device, the oldest first.
pub(super) type Joined = VecDeque<JoinedSpan>;

impl Profiler {
    /// Notes a batch of calls that has ended, by when each call came, and when it began and ended. For code that joins calls, such
    /// as sessions. While the profiler is off, this does nothing and costs one load.
    pub fn add_joined(
        &self,
        entered: impl ExactSizeIterator<Item = Instant>,
        begun: Instant,
        ended: Instant,
    ) {
        if !self.takes_annotations() {
            return;
        }
        let nanoseconds = |from: Instant, to: Instant| {
            u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
        };
        let end_ns = now_ns().saturating_sub(nanoseconds(ended, Instant::now()));
        let start_ns = end_ns.saturating_sub(nanoseconds(begun, ended));
        let (calls, mut queued_ns, mut longest_queued_ns) = (entered.len(), 0u64, 0);
        for entered in entered {
            let waited = nanoseconds(entered, begun);
            queued_ns = queued_ns.saturating_add(waited);
            longest_queued_ns = waited.max(longest_queued_ns);
        }
        let span = JoinedSpan { calls, queued_ns, longest_queued_ns, start_ns, end_ns };
        let mut joined = self.joined();
        if joined.len() >= self.ring {
            joined.pop_front();
        }
        joined.push_back(span);
    }
}

/// On which row each batch is drawn: those of a row do not overlap, and there are no more rows than batches at a time.
pub(super) fn rows(spans: &[JoinedSpan]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&at| spans[at].start_ns);
    let mut rows = vec![0; spans.len()];
    // When the last batch of each row ends.
    let mut ends: Vec<u64> = Vec::new();
    for at in order {
        let JoinedSpan { start_ns, end_ns, .. } = spans[at];
        let row = ends.iter().position(|&end| end <= start_ns).unwrap_or_else(|| {
            ends.push(0);
            ends.len() - 1
        });
        ends[row] = end_ns;
        rows[at] = row as u32;
    }
    rows
}

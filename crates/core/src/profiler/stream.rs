//! What the profiler knows about one stream.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::ThreadLabel;
use crate::{LayerName, OpKind};

/// Entries of each kind kept per stream; the oldest go first.
pub(super) const RING: usize = 16 * 1024;

/// One command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What ran.
    pub kind: OpKind,
    /// The layer that recorded it, if any did.
    pub layer: Option<LayerName>,
    /// Its sequence number.
    pub sequence: u64,
    /// When it began, see [`now_ns`](super::now_ns).
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// What a thread did with a batch of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Recorded it: from the first command until it was submitted.
    Record,
    /// Executed it, on a device whose work is done by the process's own threads.
    Execute,
}

/// A thread at work on a stream's batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSpan {
    /// What the thread did.
    pub activity: Activity,
    /// The thread.
    pub thread: ThreadLabel,
    /// The sequence number of the batch's first command.
    pub first: u64,
    /// The sequence number of its last.
    pub last: u64,
    /// When the thread began.
    pub start_ns: u64,
    /// When it was done.
    pub end_ns: u64,
}

/// What is known about one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamTrace {
    /// The stream's number.
    pub stream: u32,
    /// The commands that ran, the oldest first.
    pub spans: Vec<Span>,
    /// The threads that recorded and executed them.
    pub batches: Vec<BatchSpan>,
    /// Older commands that are no longer known.
    pub dropped: u64,
}

/// Takes what happens to one stream. Each stream has its own lock, which is taken once per batch while the
/// profiler is on and never while it is off.
pub struct StreamProfile {
    enabled: Arc<AtomicBool>,
    ring: Mutex<Ring>,
}

impl std::fmt::Debug for StreamProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamProfile").field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Ring {
    spans: VecDeque<Span>,
    batches: VecDeque<BatchSpan>,
    dropped: u64,
}

impl StreamProfile {
    pub(super) fn new(enabled: Arc<AtomicBool>) -> Self {
        Self { enabled, ring: Mutex::default() }
    }

    /// Whether anything is wanted. Ask before taking the time.
    pub fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds the commands of a batch that the device ran, if they are wanted.
    pub fn add(&self, spans: impl IntoIterator<Item = Span>) {
        if self.enabled() {
            self.lock().add(spans);
        }
    }

    /// Adds the commands of a batch that the calling thread ran, if they are wanted.
    pub fn add_executed(&self, spans: &[Span]) {
        if let ([first, ..], [.., last]) = (spans, spans)
            && self.enabled()
        {
            let mut ring = self.lock();
            ring.add(spans.iter().copied());
            ring.batch(BatchSpan {
                activity: Activity::Execute,
                thread: ThreadLabel::current(),
                first: first.sequence,
                last: last.sequence,
                start_ns: first.start_ns,
                end_ns: last.end_ns,
            });
        }
    }

    /// Adds that the calling thread has recorded a batch, if it is wanted.
    pub(crate) fn add_recorded(&self, first: u64, last: u64, start_ns: u64, end_ns: u64) {
        if !self.enabled() {
            return;
        }
        let (activity, thread) = (Activity::Record, ThreadLabel::current());
        self.lock().batch(BatchSpan { activity, thread, first, last, start_ns, end_ns });
    }

    pub(super) fn take(&self, stream: u32) -> StreamTrace {
        let ring = std::mem::take(&mut *self.lock());
        let (spans, batches) = (ring.spans.into(), ring.batches.into());
        StreamTrace { stream, spans, batches, dropped: ring.dropped }
    }
}

impl Ring {
    fn add(&mut self, spans: impl IntoIterator<Item = Span>) {
        for span in spans {
            if self.spans.len() == RING {
                self.spans.pop_front();
                self.dropped += 1;
            }
            self.spans.push_back(span);
        }
    }

    fn batch(&mut self, batch: BatchSpan) {
        if self.batches.len() == RING {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }
}

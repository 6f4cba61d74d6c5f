//! What the profiler knows about one stream.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{Shapes, ThreadLabel, file};
use crate::{BoundCommand, LayerName, OpKind};

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
    /// The shapes of commands with their sequence numbers, in order. Commands that have not run yet may be among them.
    pub shapes: Vec<(u64, Shapes)>,
    /// Older commands that are no longer known.
    pub dropped: u64,
}

impl StreamTrace {
    /// The shapes of a command's operands, where they are known.
    pub fn shapes_of(&self, sequence: u64) -> Option<&Shapes> {
        let place = self.shapes.binary_search_by_key(&sequence, |(sequence, _)| *sequence);
        place.ok().map(|place| &self.shapes[place].1)
    }
}

/// Takes what happens to one stream. Each stream has its own lock, which is taken once per batch while the
/// profiler is on and never while it is off.
pub struct StreamProfile {
    enabled: Arc<AtomicBool>,
    /// Entries of each kind that are kept.
    most: usize,
    ring: Mutex<Ring>,
}

impl std::fmt::Debug for StreamProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamProfile").field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

/// What is known; of each kind so many entries at most, the oldest go first.
#[derive(Default)]
struct Ring {
    spans: VecDeque<Span>,
    batches: VecDeque<BatchSpan>,
    shapes: VecDeque<(u64, Shapes)>,
    dropped: u64,
}

impl StreamProfile {
    pub(super) fn new(enabled: Arc<AtomicBool>, most: usize) -> Self {
        Self { enabled, most, ring: Mutex::default() }
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
            self.lock().add(spans, self.most);
        }
    }

    /// Adds the commands of a batch that the calling thread ran, if they are wanted.
    pub fn add_executed(&self, spans: &[Span]) {
        if let ([first, ..], [.., last]) = (spans, spans)
            && self.enabled()
        {
            let mut ring = self.lock();
            ring.add(spans.iter().copied(), self.most);
            let batch = BatchSpan {
                activity: Activity::Execute,
                thread: ThreadLabel::current(),
                first: first.sequence,
                last: last.sequence,
                start_ns: first.start_ns,
                end_ns: last.end_ns,
            };
            ring.batch(batch, self.most);
        }
    }

    /// Adds that the calling thread has recorded a batch, and what is in it, if it is wanted.
    pub(crate) fn add_recorded(
        &self,
        first: u64,
        commands: &[BoundCommand],
        start_ns: u64,
        end_ns: u64,
    ) {
        if !self.enabled() {
            return;
        }
        let (activity, thread) = (Activity::Record, ThreadLabel::current());
        let last = (first + commands.len() as u64).saturating_sub(1);
        let mut ring = self.lock();
        ring.batch(BatchSpan { activity, thread, first, last, start_ns, end_ns }, self.most);
        for (sequence, command) in (first..).zip(commands) {
            ring.shapes(sequence, Shapes::of(command), self.most);
        }
    }

    pub(super) fn take(&self, stream: u32) -> StreamTrace {
        std::mem::take(&mut *self.lock()).into_trace(stream)
    }

    /// The same, unless somebody keeps the lock until the deadline.
    pub(super) fn take_within(&self, stream: u32, deadline: Instant) -> Option<StreamTrace> {
        let mut ring = file::lock_within(&self.ring, deadline)?;
        Some(std::mem::take(&mut *ring).into_trace(stream))
    }
}

impl Ring {
    fn into_trace(self, stream: u32) -> StreamTrace {
        let Ring { spans, batches, shapes, dropped } = self;
        let (spans, batches, shapes) = (spans.into(), batches.into(), shapes.into());
        StreamTrace { stream, spans, batches, shapes, dropped }
    }

    fn add(&mut self, spans: impl IntoIterator<Item = Span>, most: usize) {
        for span in spans {
            if self.spans.len() == most {
                self.spans.pop_front();
                self.dropped += 1;
            }
            self.spans.push_back(span);
        }
    }

    fn batch(&mut self, batch: BatchSpan, most: usize) {
        if self.batches.len() == most {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }

    fn shapes(&mut self, sequence: u64, shapes: Shapes, most: usize) {
        if self.shapes.len() == most {
            self.shapes.pop_front();
        }
        self.shapes.push_back((sequence, shapes));
    }
}

//! The profile of one stream.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{Shapes, ThreadLabel, file};
use crate::{BoundCommand, LayerName, OpKind};

/// One Command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The kind of operation.
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

/// What a thread did with a batch of Commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Recorded it: from the first Command until it was submitted.
    Record,
    /// Executed it, on a device that computes with threads of this process.
    Execute,
}

/// The work of a thread on a stream's batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSpan {
    /// What the thread did.
    pub activity: Activity,
    /// The thread.
    pub thread: ThreadLabel,
    /// The sequence number of the batch's first Command.
    pub first: u64,
    /// The sequence number of its last Command.
    pub last: u64,
    /// When the thread began.
    pub start_ns: u64,
    /// When the thread had finished.
    pub end_ns: u64,
}

/// The profile of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamTrace {
    /// The stream's number.
    pub stream: u32,
    /// The Commands that ran, the oldest first.
    pub spans: Vec<Span>,
    /// The threads that recorded and executed them.
    pub batches: Vec<BatchSpan>,
    /// The shapes of Commands with their sequence numbers, in order. Some of these Commands may not have run yet.
    pub shapes: Vec<(u64, Shapes)>,
    /// How many older Commands were dropped.
    pub dropped: u64,
}

impl StreamTrace {
    /// The shapes of a Command's operands, if they are known.
    pub fn shapes_of(&self, sequence: u64) -> Option<&Shapes> {
        let place = self.shapes.binary_search_by_key(&sequence, |(sequence, _)| *sequence);
        place.ok().map(|place| &self.shapes[place].1)
    }
}

/// Collects the profile of one stream. Each stream has its own lock. It is taken once per batch while the profiler is
/// on, and never while it is off.
pub struct StreamProfile {
    enabled: Arc<AtomicBool>,
    /// How many entries of each kind are kept.
    most: usize,
    ring: Mutex<Ring>,
}

impl std::fmt::Debug for StreamProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamProfile").field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

/// The entries. Each kind has a maximum; the oldest are dropped first.
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

    /// Whether the profiler is on. Ask this before reading the clock.
    pub fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds the Commands of a batch that the device ran, if the profiler is on.
    pub fn add(&self, spans: impl IntoIterator<Item = Span>) {
        if self.enabled() {
            self.lock().add(spans, self.most);
        }
    }

    /// Adds the Commands of a batch that the calling thread ran, if the profiler is on.
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

    /// Adds a batch that the calling thread has recorded, and its Commands, if the profiler is on.
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

    /// As `take`; `None` if another thread holds the lock until the deadline.
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

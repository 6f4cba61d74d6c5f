//! The queue of one stream.
//!
//! `pending` is guarded by the queue's own lock, shared only by those who submit to, or execute, this
//! stream. The right to execute is a token, `running`, so batches of a stream run one at a time and in
//! order. Nobody holds the lock while computing or waiting.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use millstream_core::profiler::{Span, StreamProfile, now_ns};
use millstream_core::{
    Batch, Error, Outcome, Progress, Queue, QueueContext, Result, WaitFor, panic_message,
};

use crate::engine::Engine;
use crate::kernels;
use crate::team::Team;

pub(crate) struct CpuQueue {
    stream: u32,
    engine: Arc<Engine>,
    pub progress: Arc<Progress>,
    profile: Arc<StreamProfile>,
    pending: Mutex<Pending>,
    /// Streams, by bit, to look at again when this one has come further.
    dependents: AtomicU64,
}

#[derive(Default)]
struct Pending {
    batches: VecDeque<Batch>,
    running: bool,
    submitted: u64,
}

/// What a thread that wants to execute this stream finds.
pub(crate) enum Begin {
    /// This batch, and the token with it.
    Run(Batch),
    /// Another thread has the token.
    Busy,
    /// The next batch waits for another stream.
    Blocked(WaitFor),
    /// Nothing is pending.
    Empty,
}

impl CpuQueue {
    pub fn new(engine: Arc<Engine>, context: QueueContext) -> Self {
        Self {
            stream: context.stream,
            engine,
            progress: context.progress,
            profile: context.profile,
            pending: Mutex::default(),
            dependents: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes the next batch and the token, if it can run now.
    pub fn begin(&self) -> Begin {
        let mut pending = self.lock();
        if pending.running {
            return Begin::Busy;
        }
        loop {
            let Some(batch) = pending.batches.front() else { return Begin::Empty };
            let mut failed = None;
            for wait in &batch.waits {
                match self.engine.queue(wait.stream).progress.outcome(wait.sequence) {
                    Outcome::Pending => return Begin::Blocked(*wait),
                    Outcome::Failed(error) => failed = Some(error),
                    Outcome::Done => {}
                }
            }
            let Some(error) = failed else { break };
            let first = batch.first;
            self.fail(&mut pending, first, error);
        }
        pending.running = true;
        pending.batches.pop_front().map_or(Begin::Empty, Begin::Run)
    }

    /// Everything from `first` on that was submitted fails.
    fn fail(&self, pending: &mut Pending, first: u64, error: Error) {
        pending.batches.clear();
        self.progress.fail(first, pending.submitted, error);
        self.progress.advance(pending.submitted);
    }

    /// Puts a batch back that could not be run in time, and the token.
    pub fn put_back(&self, batch: Batch) {
        let mut pending = self.lock();
        pending.batches.push_front(batch);
        pending.running = false;
    }

    /// Executes a batch taken with [`begin`](Self::begin) and gives the token back. The caller has a
    /// permit. Returns whether more is pending.
    pub fn execute(&self, batch: Batch) -> bool {
        let result = self.run_commands(&batch);
        let last = batch.last;
        self.progress.give_back(batch.commands);
        let more = {
            let mut pending = self.lock();
            pending.running = false;
            match result {
                Ok(()) => self.progress.advance(last),
                Err((sequence, error)) => self.fail(&mut pending, sequence, error),
            }
            !pending.batches.is_empty()
        };
        self.ring_dependents();
        more
    }

    fn run_commands(&self, batch: &Batch) -> Result<(), (u64, Error)> {
        let team = Team { engine: &self.engine, stream: self.stream };
        let profiled = self.profile.enabled();
        let mut spans = Vec::with_capacity(if profiled { batch.commands.len() } else { 0 });
        let mut result = Ok(());
        for (sequence, command) in (batch.first..).zip(&batch.commands) {
            let start_ns = if profiled { now_ns() } else { 0 };
            // SAFETY: operands lie in blocks of this device's segments, which core keeps until this
            // batch has passed; the order of streams and waits excludes conflicting accesses.
            let run = || unsafe { kernels::execute(command, &team, now_ns() as i64) };
            // Faults of data are values; a panic is a defect of a kernel.
            let message = match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(())) => None,
                Ok(Err(fault)) => Some(fault.message().into()),
                Err(panic) => Some(panic_message(&*panic).into()),
            };
            if let Some(message) = message {
                let (stream, command) = (self.stream, command.op().name());
                let error = Error::Fault { stream, sequence, command, message };
                result = Err((sequence, error));
                break;
            }
            if profiled {
                let kind = command.op().kind();
                spans.push(Span { kind, sequence, start_ns, end_ns: now_ns() });
            }
        }
        self.profile.add_executed(&spans);
        result
    }

    /// Asks to be looked at again when this stream has come further. The asker must look at the
    /// progress after this: it may have come further a moment ago.
    pub fn add_dependent(&self, stream: u32) {
        self.dependents.fetch_or(1 << stream, Ordering::AcqRel);
    }

    fn ring_dependents(&self) {
        let mut streams = self.dependents.load(Ordering::Relaxed);
        if streams != 0 {
            streams = self.dependents.swap(0, Ordering::AcqRel);
        }
        while streams != 0 {
            self.engine.bell.ring(streams.trailing_zeros());
            streams &= streams - 1;
        }
    }

    pub fn has_pending(&self) -> bool {
        !self.lock().batches.is_empty()
    }
}

impl Queue for CpuQueue {
    fn submit(&self, batch: Batch) -> Result<()> {
        let caller_waits = batch.caller_waits;
        {
            let mut pending = self.lock();
            pending.submitted = batch.last;
            // Under the lock that faults are handled under, so none slips between look and push.
            if self.progress.epoch() != batch.epoch
                && let Some(error) = self.progress.latest_fault()
            {
                self.progress.fail(batch.first, batch.last, error);
                return Ok(());
            }
            pending.batches.push_back(batch);
        }
        if !caller_waits {
            self.engine.bell.ring(self.stream);
        }
        Ok(())
    }

    fn wait(&self, sequence: u64, deadline: Instant) -> Result<()> {
        self.engine.drive(self.stream, sequence, deadline);
        Ok(())
    }
}

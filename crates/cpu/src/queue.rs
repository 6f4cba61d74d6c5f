//! The queue of one stream.
//!
//! `pending` is guarded by the queue's own lock, shared only by those who submit to, or execute, this
//! stream. The right to execute is a token, `running`, so batches of a stream run one at a time and in
//! order. Nobody holds the lock while computing or waiting.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use millstream_core::profiler::{Span, StreamProfile, now_ns};
use millstream_core::sync::schedule::{AtomicU64, Mutex, MutexGuard, Ordering, PoisonError};
use millstream_core::{
    Batch, Fault, Progress, Queue, QueueContext, Result, WaitFor, panic_message,
};

use crate::dependents::Dependents;
use crate::engine::Engine;
use crate::kernels;
use crate::parallel_for::ParallelFor;
use crate::work_budget::WorkBudget;

pub(crate) struct CpuQueue {
    stream: u32,
    engine: Arc<Engine>,
    pub progress: Arc<Progress>,
    profile: Arc<StreamProfile>,
    pending: Mutex<Pending>,
    /// Streams to notify when this one has come further.
    pub dependents: Dependents,
    /// The last Command that was executed, perhaps of a batch that was put back with Commands left. Only
    /// who has the token touches it.
    executed: AtomicU64,
}

#[derive(Default)]
struct Pending {
    batches: VecDeque<Batch>,
    running: bool,
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

/// How far a batch was executed.
pub(crate) enum Executed {
    /// To its end.
    Whole {
        /// Whether another batch is pending.
        more: bool,
    },
    /// Commands are left, and nobody has the token.
    InPart,
}

impl CpuQueue {
    pub fn new(engine: Arc<Engine>, context: QueueContext) -> Self {
        Self {
            stream: context.stream,
            engine,
            progress: context.progress,
            profile: context.profile,
            pending: Mutex::default(),
            dependents: Dependents::new(),
            executed: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next batch and the token, if it can run now.
    pub fn begin(&self) -> Begin {
        let mut pending = self.lock();
        if pending.running {
            return Begin::Busy;
        }
        let Some(batch) = pending.batches.front() else { return Begin::Empty };
        let passed =
            |wait: &&WaitFor| self.engine.queue(wait.stream).progress.passed(wait.sequence);
        if let Some(wait) = batch.waits.iter().find(|wait| !passed(wait)) {
            return Begin::Blocked(*wait);
        }
        pending.running = true;
        pending.batches.pop_front().map_or(Begin::Empty, Begin::Run)
    }

    /// Puts a batch back that could not be run to its end in time, and the token.
    pub fn put_back(&self, batch: Batch) {
        let mut pending = self.lock();
        pending.batches.push_front(batch);
        pending.running = false;
    }

    /// Executes what is left of a batch taken with [`begin`](Self::begin), as far as is allowed, and gives
    /// the token back. The caller has a permit. Progress is made when the whole batch is through; a batch
    /// with Commands left is put back.
    pub fn execute(&self, mut batch: Batch, budget: &mut WorkBudget) -> Executed {
        // One fault for the whole run, which is reported once.
        let no_arena = batch.bind_arena().err().map(Fault::new);
        if !self.run_commands(&batch, no_arena.as_ref(), budget) {
            self.put_back(batch);
            return Executed::InPart;
        }
        let last = batch.last;
        self.progress.recycle(batch);
        let more = {
            let mut pending = self.lock();
            pending.running = false;
            self.progress.advance(last);
            !pending.batches.is_empty()
        };
        self.notify_dependents();
        self.progress.wake_tasks();
        Executed::Whole { more }
    }

    /// Executes the Commands that are left, and says whether all are done. Those of a plan fail if it has no arena.
    fn run_commands(
        &self,
        batch: &Batch,
        no_arena: Option<&Fault>,
        budget: &mut WorkBudget,
    ) -> bool {
        let planned = batch.plan().map_or(0..0, |plan| plan.commands.clone());
        let parallel = ParallelFor { engine: &self.engine, stream: self.stream };
        let profiled = self.profile.enabled();
        let mut spans = Vec::with_capacity(if profiled { batch.commands.len() } else { 0 });
        let mut all = true;
        let _scratch = kernels::lease_scratch();
        let done = (self.executed.load(Ordering::Relaxed) + 1).saturating_sub(batch.first) as usize;
        for (index, command) in batch.commands.iter().enumerate().skip(done) {
            let sequence = batch.first + index as u64;
            if batch.inherit(index, &self.progress) {
                self.executed.store(sequence, Ordering::Relaxed);
                continue;
            }
            if let Some(fault) = no_arena.filter(|_| planned.contains(&index)) {
                batch.fail(index, fault.clone(), &self.progress);
                self.executed.store(sequence, Ordering::Relaxed);
                continue;
            }
            if !budget.try_spend(|| batch.work(index)) {
                all = false;
                break;
            }
            let start_ns = if profiled { now_ns() } else { 0 };
            // SAFETY: operands lie in blocks of this device's segments, which core keeps until this
            // batch has passed; the order of streams and waits excludes conflicting accesses.
            let run = || unsafe { kernels::execute(command, &parallel, now_ns() as i64) };
            // Faults of data are values; a panic is a defect of a kernel.
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(())) => batch.succeed(index),
                Ok(Err(fault)) => self.fail(batch, index, fault.message()),
                Err(panic) => self.fail(batch, index, panic_message(&*panic)),
            }
            self.executed.store(sequence, Ordering::Relaxed);
            if profiled {
                let (kind, layer) = (command.op().kind(), batch.layer(index));
                spans.push(Span { kind, layer, sequence, start_ns, end_ns: now_ns() });
            }
        }
        self.profile.add_executed(&spans);
        all
    }

    fn fail(&self, batch: &Batch, index: usize, message: &str) {
        batch.fail(index, batch.fault(self.stream, index, message), &self.progress);
    }

    /// Notifies streams that wait for this one. To be called after all progress.
    fn notify_dependents(&self) {
        self.dependents.take().for_each(|stream| self.engine.idle_workers.notify(stream));
    }

    pub fn has_pending(&self) -> bool {
        !self.lock().batches.is_empty()
    }
}

impl Queue for CpuQueue {
    fn submit(&self, batch: Batch) -> Result<()> {
        let caller_waits = batch.caller_waits;
        self.lock().batches.push_back(batch);
        if !caller_waits {
            self.engine.idle_workers.notify(self.stream);
        }
        Ok(())
    }

    fn wait(&self, sequence: u64, deadline: Instant) -> Result<()> {
        self.engine.drive(self.stream, sequence, deadline);
        Ok(())
    }

    fn trim(&self) {
        kernels::SCRATCH_STORE.free_spare();
        kernels::free_idle_scratch();
    }
}

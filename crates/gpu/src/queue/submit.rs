//! Submitting a batch: it is replayed if it occurred before, else lowered and launched.

use std::any::Any;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_core::sync::schedule::PoisonError;
use millstream_core::{Batch, Error, Op, Result};

use super::failures::Failures;
use super::{GpuQueue, Submitted};
use crate::failure::Failure;
use crate::lowering::{BatchLowering, LaunchFailure, Staged, Timestamps};
use crate::memory::{MAX_IN_FLIGHT, Staging, StagingPool, kept_addresses, transfers};
use crate::platform::{Binding, Platform};
use crate::replay::{Instance, Lookup, ReplayCache, Signature};

/// Batches that transfer more than this through staging memory are not replayed: each captured list keeps its own.
const REPLAYED_BYTES: usize = 1 << 20;
/// Batches with fewer launches are not captured: a replay would not be faster.
const FEWEST_ITEMS: usize = 3;

/// The state that a submit needs.
pub(super) struct Submitter<P: Platform> {
    platform: P,
    lowering: BatchLowering<P>,
    signature: Signature<P>,
    replays: ReplayCache<Instance<P>>,
    pool: StagingPool<P>,
    /// What batches in flight may still use. Dropped when the next batch has completed.
    retired: Vec<Box<dyn Any + Send>>,
    /// How many batches were launched up to their end.
    ticks: u64,
}

/// What the device got of a batch.
struct Launched<P: Platform> {
    /// Whether it was launched up to its end, so that it completes by itself.
    completes: bool,
    staging: Option<Arc<Staging<P>>>,
    timestamps: Option<Timestamps>,
    /// The Commands that were not launched.
    failures: Failures,
    keep: Vec<Box<dyn Any + Send>>,
}

impl<P: Platform> Default for Launched<P> {
    fn default() -> Self {
        Self {
            completes: false,
            staging: None,
            timestamps: None,
            failures: Failures::default(),
            keep: Vec::new(),
        }
    }
}

impl<P: Platform> Submitter<P> {
    pub fn new(
        platform: P,
        encoder: P::Encoder,
        fault_record: Binding<P::Segment>,
        commands: usize,
    ) -> Self {
        Self {
            lowering: BatchLowering::new(platform.clone(), encoder, fault_record, commands),
            signature: Signature::new(platform.number()),
            replays: ReplayCache::default(),
            pool: StagingPool::default(),
            retired: Vec::new(),
            ticks: 0,
            platform,
        }
    }

    /// Gives as much of the batch to the device as possible.
    ///
    /// # Errors
    ///
    /// The device is lost.
    fn launch(&mut self, queue: &GpuQueue<P>, batch: &Batch) -> Result<Launched<P>> {
        let device = self.platform.number();
        let bytes = transfers::<P>(device, &batch.commands, |_, _, _| {}).total();
        let profiled = queue.profile.enabled();
        let replayable = queue.shared.options.replay
            && !profiled
            && bytes <= REPLAYED_BYTES
            && batch.commands.len() + 1 >= FEWEST_ITEMS;
        let lookup = match replayable {
            false => Lookup::Launch,
            true => {
                self.signature.write_batch(&batch.commands, batch.plan());
                let evict = |instance| self.retired.push(Box::new(instance));
                self.replays.look_up(|| self.signature.finish(), self.signature.words(), evict)
            }
        };
        let mut launched = match lookup {
            Lookup::Replay(entry, instance) => {
                queue.replays.store(queue.replays.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                self.replay(queue, batch, entry, instance, bytes)
            }
            Lookup::Capture(entry) => self.capture(queue, batch, entry, bytes),
            Lookup::Launch => self.lower_and_launch(queue, batch, bytes, profiled),
        }?;
        self.ticks += u64::from(launched.completes);
        launched.keep.append(&mut self.retired);
        Ok(launched)
    }

    /// Launches a captured list. If that fails, launches the batch item by item.
    fn replay(
        &mut self,
        queue: &GpuQueue<P>,
        batch: &Batch,
        entry: usize,
        instance: usize,
        bytes: usize,
    ) -> Result<Launched<P>> {
        let instance = self.replays.instance(entry, instance);
        let staging = instance.staging.clone();
        if let Some(staging) = &staging {
            fill(&self.platform, batch, staging);
        }
        let encoder = &mut self.lowering.encoder;
        let replayed = self.platform.replay(&mut instance.captured, &queue.queue, encoder);
        let Err(failure) = replayed else {
            return Ok(Launched { completes: true, staging, ..Launched::default() });
        };
        staging.iter().for_each(|staging| staging.release());
        self.platform.status().survive(&failure)?;
        self.platform.log(|| format!("stream {}: not replayed: {failure}", queue.id));
        self.lower_and_launch(queue, batch, bytes, false)
    }

    /// Captures the batch and launches the captured list. If it cannot be captured, launches it item by item.
    fn capture(
        &mut self,
        queue: &GpuQueue<P>,
        batch: &Batch,
        entry: usize,
        bytes: usize,
    ) -> Result<Launched<P>> {
        let staging = match bytes {
            0 => Ok(None),
            _ => self.staged(Staging::new(&self.platform, bytes), bytes)?,
        };
        let failures = self.lowering.lower(&batch.commands, &staging, None)?;
        if !failures.is_empty() {
            // Perhaps all Commands can be lowered when the batch occurs again.
            return self.launch_list(queue, batch, staging, None, failures);
        }
        let BatchLowering { list, encoder, .. } = &mut self.lowering;
        if list.len() < FEWEST_ITEMS {
            self.replays.refuse(entry);
            return self.launch_list(queue, batch, staging, None, failures);
        }
        // SAFETY: nothing runs while capturing. The addresses are those of the batch, and core keeps them valid for
        // every batch that names them.
        let captured = match unsafe { self.platform.capture(list, &queue.queue, encoder) } {
            Ok(captured) => captured,
            Err(failure) => {
                self.platform.status().survive(&failure)?;
                self.platform.log(|| format!("stream {}: not captured: {failure}", queue.id));
                self.replays.refuse(entry);
                return self.launch_list(queue, batch, staging, None, failures);
            }
        };
        self.platform.log(|| format!("stream {}: captured {} launches", queue.id, list.len()));
        let mut keep = std::mem::take(&mut list.keep);
        keep.extend(self.lowering.kept_scratch().map(|scratch| Box::new(scratch) as Box<_>));
        keep.extend(kept_addresses(&batch.commands));
        let staging = staging.ok().flatten();
        let index = self.replays.add(entry, Instance { captured, staging, _keep: keep });
        self.replay(queue, batch, entry, index, bytes)
    }

    fn lower_and_launch(
        &mut self,
        queue: &GpuQueue<P>,
        batch: &Batch,
        bytes: usize,
        profiled: bool,
    ) -> Result<Launched<P>> {
        let timestamps = profiled.then_some(Timestamps { offset: bytes });
        let total = bytes + if profiled { (batch.commands.len() + 1) * 8 } else { 0 };
        let staging = match total {
            0 => Ok(None),
            _ => {
                let taken = self.pool.take(&self.platform, total);
                self.staged(taken, total)?
            }
        };
        let timestamps = timestamps.filter(|_| staging.is_ok());
        let failures = self.lowering.lower(&batch.commands, &staging, timestamps)?;
        self.launch_list(queue, batch, staging, timestamps, failures)
    }

    /// Staging memory, or the error of the Commands that need it.
    ///
    /// # Errors
    ///
    /// The device is lost.
    fn staged(&self, taken: Result<Arc<Staging<P>>, Failure>, bytes: usize) -> Result<Staged<P>> {
        match taken {
            Ok(staging) => Ok(Ok(Some(staging))),
            Err(failure) => {
                self.platform.status().survive(&failure)?;
                Ok(Err(self.lowering.refusal(&failure, bytes)))
            }
        }
    }

    /// Launches what was lowered.
    fn launch_list(
        &mut self,
        queue: &GpuQueue<P>,
        batch: &Batch,
        staging: Staged<P>,
        timestamps: Option<Timestamps>,
        mut failures: Failures,
    ) -> Result<Launched<P>> {
        let staging = staging.ok().flatten();
        if let Some(staging) = &staging {
            fill(&self.platform, batch, staging);
        }
        let BatchLowering { list, encoder, .. } = &mut self.lowering;
        // SAFETY: operands lie in blocks of this device's segments, which core keeps until this batch has passed. The
        // entry keeps the staging memory and everything else that the list names.
        let run = unsafe { self.platform.launch(list, &queue.queue, encoder) };
        let completes = match run {
            Ok(()) => true,
            Err(LaunchFailure { launched, command, failure }) => {
                failures.add_rest(command, self.platform.status().survive(&failure)?);
                if launched > 0 {
                    self.end_early(queue, batch)?;
                }
                launched > 0
            }
        };
        let keep = std::mem::take(&mut self.lowering.list.keep);
        Ok(Launched { completes, staging, timestamps, failures, keep })
    }

    /// Launches the end of a batch of which only a part was launched.
    ///
    /// # Errors
    ///
    /// The device is lost: without the end, nobody knows when it has finished that part.
    fn end_early(&mut self, queue: &GpuQueue<P>, batch: &Batch) -> Result<()> {
        self.lowering.list.clear();
        self.lowering.finish(batch.commands.len());
        let BatchLowering { list, encoder, .. } = &mut self.lowering;
        // SAFETY: the end of a batch writes the queue's own memory.
        let ended = unsafe { self.platform.launch(list, &queue.queue, encoder) };
        ended.map_err(|failed| self.platform.status().lose(&failed.failure))
    }
}

/// Copies uploads to the memory from which the device reads them, and marks that memory as used.
fn fill<P: Platform>(platform: &P, batch: &Batch, staging: &Staging<P>) {
    staging.occupy();
    transfers::<P>(platform.number(), &batch.commands, |_, command, offset| {
        if let Op::Upload { source, .. } = command.op() {
            // SAFETY: the staging memory is as large as all transfers together, and nobody else uses it. Nobody
            // writes to the source of an upload after its creation.
            unsafe {
                let target = staging.host().add(offset);
                target.copy_from_nonoverlapping(source.as_ptr(), source.len());
            }
        }
    });
}

impl<P: Platform> GpuQueue<P> {
    /// See [`Queue::submit`](millstream_core::Queue::submit).
    pub(super) fn submit_batch(&self, mut batch: Batch) -> Result<()> {
        let status = self.platform.status();
        status.check()?;
        let mut submitter = self.submitter.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(submitter) = submitter.as_mut() else {
            return Err(Error::DeviceClosed { device: status.name().to_owned() });
        };
        self.platform.enter().map_err(|failure| status.lose(&failure))?;
        // This comes first, also for a batch that is not launched: later batches rely on coming after what it waits
        // for.
        self.order(submitter, &mut batch)?;
        let launched = match self.in_flight.has_room() {
            true => submitter.launch(self, &batch)?,
            false => Launched { failures: Failures::all(self.is_full()), ..Launched::default() },
        };
        let Launched { completes: launched, staging, timestamps, failures, keep } = launched;
        let submitted = Submitted { batch, launched, staging, timestamps, failures, keep };
        self.in_flight.push(submitter.ticks, submitted);
        Ok(())
    }

    /// The error of a batch that has no slot for its faults. Core submits fewer batches than that.
    fn is_full(&self) -> Error {
        let reason = format!("more than {MAX_IN_FLIGHT} batches are in flight");
        Error::Driver { device: self.platform.status().name().to_owned(), message: reason.into() }
    }

    /// Makes the queue wait for what the batch waits for. Removes the waits that have passed from the batch.
    ///
    /// # Errors
    ///
    /// The device is lost: without an order, nothing that comes later can be right.
    fn order(&self, submitter: &mut Submitter<P>, batch: &mut Batch) -> Result<()> {
        let mut result = Ok(());
        let encoder = &mut submitter.lowering.encoder;
        batch.waits.retain(|wait| {
            let Some(other) = self.shared.queue(wait.stream) else { return false };
            let pending = !other.progress.passed(wait.sequence);
            if pending && result.is_ok() {
                result = self.platform.order(&other.queue, &self.queue, encoder);
            }
            pending
        });
        result.map_err(|failure| self.platform.status().lose(&failure))
    }
}

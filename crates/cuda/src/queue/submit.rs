//! Submitting a batch: by a graph if it came before, else step by step.

use std::any::Any;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_core::sync::schedule::PoisonError;
use millstream_core::{Batch, Error, Op, Result};

use super::CudaQueue;
use super::failures::Failures;
use super::flight::Entry;
use super::host;
use super::page::SLOTS;
use super::plans::{Instance, Known, Plans};
use super::prepare::{Preparer, Staged, Stamps};
use super::signature::Signature;
use super::staging::{self, Staging, StagingPool};
use super::steps::{self, Stopped};
use crate::driver::{Event, Failure, Graph, Stream};
use crate::gpu::Gpu;
use crate::settings::{self, Settings};

/// Batches that transfer more than this through staging memory are not replayed: a graph keeps its own.
const REPLAYED_BYTES: usize = 1 << 20;
/// Batches of fewer steps are launched as they are: a graph would not be quicker.
const FEWEST_STEPS: usize = 3;

/// What a submit works with.
pub(super) struct Encoder {
    gpu: &'static Gpu,
    settings: Settings,
    /// Used for capturing only, never for running.
    capture: Stream,
    event: Event,
    preparer: Preparer,
    signature: Signature,
    plans: Plans,
    pool: StagingPool,
    /// What batches in flight may still use: dropped when the next batch is through.
    retired: Vec<Box<dyn Any + Send>>,
    /// Ticks that were launched.
    ticks: u64,
}

/// What was given to the device for a batch.
#[derive(Default)]
struct Launched {
    /// It ends with a tick.
    ticks: bool,
    staging: Option<Arc<Staging>>,
    stamps: Option<Stamps>,
    /// What was not.
    failures: Failures,
    keep: Vec<Box<dyn Any + Send>>,
}

impl Encoder {
    pub fn new(
        gpu: &'static Gpu,
        settings: Settings,
        places: steps::Places,
    ) -> Result<Self, Failure> {
        Ok(Self {
            gpu,
            settings,
            capture: Stream::new()?,
            event: Event::new()?,
            preparer: Preparer::new(gpu, settings, places),
            signature: Signature::new(gpu.properties.ordinal),
            plans: Plans::default(),
            pool: StagingPool::default(),
            retired: Vec::new(),
            ticks: 0,
        })
    }

    /// Gives the batch to the device, as much of it as can be.
    ///
    /// # Errors
    ///
    /// The device is lost.
    fn launch(&mut self, queue: &CudaQueue, batch: &Batch) -> Result<Launched> {
        let ordinal = self.gpu.properties.ordinal;
        let bytes = staging::transfers(ordinal, &batch.commands, |_, _, _| {}).total();
        let profiled = queue.profile.enabled();
        let replayable = self.settings.graphs
            && !profiled
            && bytes <= REPLAYED_BYTES
            && batch.commands.len() + 1 >= FEWEST_STEPS;
        let known = match replayable {
            false => Known::Launch,
            true => {
                self.signature.write_batch(&batch.commands, batch.plan());
                let evict = |instance| self.retired.push(Box::new(instance));
                self.plans.look_up(|| self.signature.finish(), self.signature.words(), evict)
            }
        };
        let mut launched = match known {
            Known::Replay(plan, instance) => {
                queue.replays.store(queue.replays.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                self.replay(queue, batch, plan, instance, bytes)
            }
            Known::Capture(plan) => self.capture(queue, batch, plan, bytes),
            Known::Launch => self.launch_steps(queue, batch, bytes, profiled),
        }?;
        self.ticks += u64::from(launched.ticks);
        launched.keep.append(&mut self.retired);
        Ok(launched)
    }

    /// Launches a graph; step by step if that fails.
    fn replay(
        &mut self,
        queue: &CudaQueue,
        batch: &Batch,
        plan: usize,
        instance: usize,
        bytes: usize,
    ) -> Result<Launched> {
        let instance = self.plans.instance(plan, instance);
        let staging = instance.staging.clone();
        if let Some(staging) = &staging {
            fill(self.gpu, batch, staging);
        }
        let Err(failure) = instance.graph.launch(&queue.stream) else {
            return Ok(Launched { ticks: true, staging, ..Launched::default() });
        };
        staging.iter().for_each(|staging| staging.release());
        self.survive(&failure)?;
        settings::log(|| format!("stream {}: not replayed: {failure}", queue.id));
        self.launch_steps(queue, batch, bytes, false)
    }

    /// Captures the batch into a graph and launches that; step by step where it cannot be captured.
    fn capture(
        &mut self,
        queue: &CudaQueue,
        batch: &Batch,
        plan: usize,
        bytes: usize,
    ) -> Result<Launched> {
        let staging = match bytes {
            0 => Ok(None),
            _ => self.staged(Staging::new(&self.gpu.context, bytes), bytes)?,
        };
        let failures = self.preparer.prepare(&batch.commands, &staging, None)?;
        if !failures.is_empty() {
            // Perhaps all of them can be prepared when the batch comes again.
            return self.run_steps(queue, batch, staging, None, failures);
        }
        let Preparer { steps, blas, .. } = &mut self.preparer;
        if steps.len() < FEWEST_STEPS {
            self.plans.refuse(plan);
            return self.run_steps(queue, batch, staging, None, failures);
        }
        // SAFETY: nothing is run while capturing; addresses are those of the batch, which core keeps
        // valid for every batch that names them.
        let captured = Graph::capture(&self.capture, || unsafe {
            steps.run(&self.capture, blas).map_err(|stopped| stopped.failure)
        });
        let graph = match captured {
            Ok(graph) => graph,
            Err(failure) => {
                self.survive(&failure)?;
                settings::log(|| format!("stream {}: not captured: {failure}", queue.id));
                self.plans.refuse(plan);
                return self.run_steps(queue, batch, staging, None, failures);
            }
        };
        settings::log(|| format!("stream {}: captured {} steps", queue.id, steps.len()));
        let mut keep = std::mem::take(&mut steps.keep);
        keep.extend(self.preparer.kept_scratch().map(|scratch| Box::new(scratch) as Box<_>));
        keep.extend(host::kept_addresses(&batch.commands));
        let staging = staging.ok().flatten();
        let index = self.plans.add(plan, Instance { graph, staging, _keep: keep });
        self.replay(queue, batch, plan, index, bytes)
    }

    fn launch_steps(
        &mut self,
        queue: &CudaQueue,
        batch: &Batch,
        bytes: usize,
        profiled: bool,
    ) -> Result<Launched> {
        let stamps = profiled.then_some(Stamps { place: bytes });
        let total = bytes + if profiled { (batch.commands.len() + 1) * 8 } else { 0 };
        let staging = match total {
            0 => Ok(None),
            _ => {
                let taken = self.pool.take(&self.gpu.context, total);
                self.staged(taken, total)?
            }
        };
        let stamps = stamps.filter(|_| staging.is_ok());
        let failures = self.preparer.prepare(&batch.commands, &staging, stamps)?;
        self.run_steps(queue, batch, staging, stamps, failures)
    }

    /// Staging memory, or the error of the Commands that need it.
    ///
    /// # Errors
    ///
    /// The device is lost.
    fn staged(&self, taken: Result<Arc<Staging>, Failure>, bytes: usize) -> Result<Staged> {
        match taken {
            Ok(staging) => Ok(Ok(Some(staging))),
            Err(failure) => {
                self.survive(&failure)?;
                Ok(Err(self.preparer.refusal(&failure, bytes)))
            }
        }
    }

    /// Notes a failure.
    ///
    /// # Errors
    ///
    /// The device is lost by it.
    fn survive(&self, failure: &Failure) -> Result<Error> {
        let error = self.gpu.note(failure);
        self.gpu.check().map(|()| error)
    }

    /// Runs the steps that were prepared.
    fn run_steps(
        &mut self,
        queue: &CudaQueue,
        batch: &Batch,
        staging: Staged,
        stamps: Option<Stamps>,
        mut failures: Failures,
    ) -> Result<Launched> {
        let staging = staging.ok().flatten();
        if let Some(staging) = &staging {
            fill(self.gpu, batch, staging);
        }
        let Preparer { steps, blas, .. } = &mut self.preparer;
        // SAFETY: operands lie in blocks of this device's segments, which core keeps until this batch has
        // passed; staging memory and what else the steps name is kept by the entry.
        let run = unsafe { steps.run(&queue.stream, blas) };
        let ticks = match run {
            Ok(()) => true,
            Err(Stopped { taken, command, failure }) => {
                failures.add_rest(command, self.survive(&failure)?);
                if taken > 0 {
                    self.end_early(queue, batch)?;
                }
                taken > 0
            }
        };
        let keep = std::mem::take(&mut self.preparer.steps.keep);
        Ok(Launched { ticks, staging, stamps, failures, keep })
    }

    /// A part of the batch was launched, which has to have an end.
    ///
    /// # Errors
    ///
    /// The device is lost: without the end nobody can say when it is through with that part.
    fn end_early(&mut self, queue: &CudaQueue, batch: &Batch) -> Result<()> {
        self.preparer.steps.clear();
        self.preparer.tick(batch.commands.len());
        let Preparer { steps, blas, .. } = &mut self.preparer;
        // SAFETY: the tick writes the queue's own memory.
        unsafe { steps.run(&queue.stream, blas) }.map_err(|stopped| self.gpu.lose(&stopped.failure))
    }
}

/// Copies what is uploaded to its place, and marks the memory as used.
fn fill(gpu: &Gpu, batch: &Batch, staging: &Staging) {
    staging.occupy();
    staging::transfers(gpu.properties.ordinal, &batch.commands, |_, command, place| {
        if let Op::Upload { source, .. } = command.op() {
            // SAFETY: the staging memory is as large as all places together and used by nobody else;
            // nobody writes to the source of an upload after its creation.
            unsafe {
                let target = staging.memory().host().add(place);
                target.copy_from_nonoverlapping(source.as_ptr(), source.len());
            }
        }
    });
}

impl CudaQueue {
    /// See [`Queue::submit`](millstream_core::Queue::submit).
    pub(crate) fn submit_batch(&self, mut batch: Batch) -> Result<()> {
        self.gpu.check()?;
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(encoder) = encoder.as_mut() else {
            return Err(Error::DeviceClosed { device: self.gpu.name() });
        };
        self.gpu.context.make_current().map_err(|failure| self.gpu.lose(&failure))?;
        // Before anything else, and for a batch that is not launched too: others may come after it, and
        // count on coming after what it waits for.
        self.order(encoder, &mut batch)?;
        let launched = match self.flight().has_room() {
            true => encoder.launch(self, &batch)?,
            false => Launched { failures: Failures::all(self.is_full()), ..Launched::default() },
        };
        let Launched { ticks, staging, stamps, failures, keep } = launched;
        let tick = encoder.ticks;
        let mut flight = self.flight();
        let entry = Entry { batch, tick, launched: ticks, staging, stamps, failures, keep };
        flight.entries.push_back(entry);
        self.front.store(flight.front_tick(), Ordering::Release);
        Ok(())
    }

    /// The error of a batch for whose faults there is no slot. Core submits fewer.
    fn is_full(&self) -> Error {
        let message = format!("more than {SLOTS} batches are in flight").into();
        Error::Driver { device: self.gpu.name(), message }
    }

    /// Makes the stream wait for what the batch waits for, and leaves only those waits in the batch that
    /// have not passed.
    ///
    /// # Errors
    ///
    /// The device is lost: without an order nothing that comes later can be right.
    fn order(&self, encoder: &mut Encoder, batch: &mut Batch) -> Result<()> {
        let mut result = Ok(());
        batch.waits.retain(|wait| {
            let Some(other) = self.shared.queue(wait.stream) else { return false };
            let pending = !other.progress.passed(wait.sequence);
            if pending && result.is_ok() {
                result = encoder.event.order(&other.stream, &self.stream);
            }
            pending
        });
        result.map_err(|failure| self.gpu.lose(&failure))
    }
}

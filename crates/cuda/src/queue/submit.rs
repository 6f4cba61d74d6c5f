//! Submitting a batch: by a graph if it came before, else step by step.

use std::any::Any;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_core::{Batch, Error, Op, Outcome, Result};

use super::CudaQueue;
use super::flight::Entry;
use super::host;
use super::plans::{Instance, Known, Plans};
use super::prepare::{Preparer, Stamps};
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
    ticks: u64,
    places: steps::Places,
}

/// What was given to the device for a batch.
struct Launched {
    staging: Option<Arc<Staging>>,
    stamps: Option<Stamps>,
    doomed: Option<Error>,
    keep: Vec<Box<dyn Any + Send>>,
}

/// What a batch waits for.
enum Waits {
    /// The stream was told to wait.
    Ordered,
    /// What it waits for has failed.
    Failed(Error),
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
            places,
        })
    }

    /// Gives the batch to the device.
    ///
    /// # Errors
    ///
    /// Nothing of it was launched.
    fn launch(&mut self, queue: &CudaQueue, batch: &Batch) -> Result<Launched> {
        let ordinal = self.gpu.properties.ordinal;
        let bytes = staging::transfers(ordinal, &batch.commands, |_, _, _| {}).total();
        let profiled = queue.profile.enabled();
        let replayable = self.settings.graphs
            && !profiled
            && bytes <= REPLAYED_BYTES
            && batch.commands.len() + 1 >= FEWEST_STEPS
            && self.signature.write_batch(&batch.commands);
        let known = match replayable {
            false => Known::Launch,
            true => {
                let evict = |instance| self.retired.push(Box::new(instance));
                self.plans.look_up(|| self.signature.finish(), self.signature.words(), evict)
            }
        };
        let mut launched = match known {
            Known::Replay(plan, instance) => {
                queue.replays.store(queue.replays.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                self.replay(queue, batch, plan, instance)
            }
            Known::Capture(plan) => self.capture(queue, batch, plan, bytes),
            Known::Launch => self.launch_steps(queue, batch, bytes, profiled),
        }?;
        launched.keep.append(&mut self.retired);
        Ok(launched)
    }

    fn replay(
        &mut self,
        queue: &CudaQueue,
        batch: &Batch,
        plan: usize,
        instance: usize,
    ) -> Result<Launched> {
        let instance = self.plans.instance(plan, instance);
        let staging = instance.staging.clone();
        if let Some(staging) = &staging {
            fill(self.gpu, batch, staging);
        }
        instance.graph.launch(&queue.stream).map_err(|failure| {
            staging.iter().for_each(|staging| staging.release());
            self.gpu.note(&failure)
        })?;
        self.ticks += 1;
        Ok(Launched { staging, stamps: None, doomed: None, keep: Vec::new() })
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
            0 => None,
            _ => Some(Staging::new(&self.gpu.context, bytes).map_err(|f| self.gpu.note(&f))?),
        };
        self.preparer.prepare(&batch.commands, staging.as_deref(), None)?;
        let Preparer { steps, blas, .. } = &mut self.preparer;
        if steps.len() < FEWEST_STEPS {
            self.plans.refuse(plan);
            return self.run_steps(queue, batch, staging, None);
        }
        // SAFETY: nothing is run while capturing; addresses are those of the batch, which core keeps
        // valid for every batch that names them.
        let captured = Graph::capture(&self.capture, || unsafe {
            steps.run(&self.capture, blas).map_err(|stopped| stopped.failure)
        });
        let graph = match captured {
            Ok(graph) => graph,
            Err(failure) if failure.sticky => return Err(self.gpu.note(&failure)),
            Err(failure) => {
                settings::log(|| format!("stream {}: not captured: {failure}", queue.id));
                self.plans.refuse(plan);
                return self.run_steps(queue, batch, staging, None);
            }
        };
        settings::log(|| format!("stream {}: captured {} steps", queue.id, steps.len()));
        let mut keep = std::mem::take(&mut steps.keep);
        keep.extend(self.preparer.kept_scratch().map(|scratch| Box::new(scratch) as Box<_>));
        keep.extend(host::kept_addresses(&batch.commands));
        let index = self.plans.add(plan, Instance { graph, staging, _keep: keep });
        self.replay(queue, batch, plan, index)
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
            0 => None,
            _ => Some(self.pool.take(&self.gpu.context, total).map_err(|f| self.gpu.note(&f))?),
        };
        self.preparer.prepare(&batch.commands, staging.as_deref(), stamps)?;
        self.run_steps(queue, batch, staging, stamps)
    }

    /// Runs the steps that were prepared.
    fn run_steps(
        &mut self,
        queue: &CudaQueue,
        batch: &Batch,
        staging: Option<Arc<Staging>>,
        stamps: Option<Stamps>,
    ) -> Result<Launched> {
        if let Some(staging) = &staging {
            fill(self.gpu, batch, staging);
        }
        let Preparer { steps, blas, .. } = &mut self.preparer;
        // SAFETY: operands lie in blocks of this device's segments, which core keeps until this batch has
        // passed; staging memory and what else the steps name is kept by the entry.
        let run = unsafe { steps.run(&queue.stream, blas) };
        let doomed = match run {
            Ok(()) => None,
            Err(Stopped { taken: 0, failure }) => {
                staging.inspect(|staging| staging.release());
                return Err(self.gpu.note(&failure));
            }
            Err(stopped) => Some(self.abandon(queue, batch, &stopped)?),
        };
        self.ticks += 1;
        let keep = std::mem::take(&mut self.preparer.steps.keep);
        Ok(Launched { staging, stamps, doomed, keep })
    }

    /// A part of the batch was launched: it fails when the device is through with that part.
    fn abandon(&mut self, queue: &CudaQueue, batch: &Batch, stopped: &Stopped) -> Result<Error> {
        let error = self.gpu.note(&stopped.failure);
        self.gpu.check()?;
        let Preparer { steps, blas, .. } = &mut self.preparer;
        steps.clear();
        steps.tick(self.gpu, self.places);
        // SAFETY: the tick writes the queue's own memory.
        if let Err(again) = unsafe { steps.run(&queue.stream, blas) } {
            // Nobody can say any more when the device is through.
            return Err(self.gpu.lose(&again.failure));
        }
        Ok(queue.named(batch, error))
    }
}

/// Copies what is uploaded to its place, and marks the memory as used.
fn fill(gpu: &Gpu, batch: &Batch, staging: &Staging) {
    staging.occupy();
    staging::transfers(gpu.properties.ordinal, &batch.commands, |_, command, place| {
        if let Op::Upload { source } = command.op() {
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
        let mut encoder = self.encoder.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(encoder) = encoder.as_mut() else {
            return Err(Error::DeviceClosed { device: self.gpu.name() });
        };
        self.gpu.context.make_current().map_err(|failure| self.gpu.note(&failure))?;
        if !self.admit(&batch) {
            return Ok(());
        }
        let launched = match self.order(encoder, &mut batch) {
            Ok(Waits::Ordered) => encoder.launch(self, &batch),
            Ok(Waits::Failed(error)) => {
                let mut flight = self.flight();
                flight.launching = false;
                flight.break_from(batch.first, error);
                self.settle(&mut flight);
                return Ok(());
            }
            Err(error) => Err(error),
        };
        let launched = launched.map_err(|error| self.named(&batch, error));
        let mut flight = self.flight();
        flight.launching = false;
        let result = launched.map(|Launched { staging, stamps, doomed, keep }| {
            let tick = encoder.ticks;
            flight.entries.push_back(Entry { batch, tick, staging, stamps, doomed, keep });
        });
        self.settle(&mut flight);
        result
    }

    /// An error of a call, with the batch that it was made for.
    fn named(&self, batch: &Batch, error: Error) -> Error {
        let Error::Unavailable { reason, .. } = error else { return error };
        let command = batch.commands.first().map_or("batch", |command| command.op().name());
        let (stream, sequence, message) = (self.id, batch.first, reason.into());
        Error::Fault { stream, sequence, command, message }
    }

    /// Whether the batch may run. Under the lock that faults are handled under, so none slips between
    /// this look and the launch.
    fn admit(&self, batch: &Batch) -> bool {
        let mut flight = self.flight();
        flight.submitted = batch.last;
        if flight.broken.is_some() {
            // It fails with everything else, when the device is through.
            return false;
        }
        if self.progress.epoch() != batch.epoch
            && let Some(error) = self.progress.latest_fault()
        {
            self.progress.fail(batch.first, batch.last, error);
            return false;
        }
        flight.launching = true;
        true
    }

    /// Makes the stream wait for what the batch waits for, and leaves only those waits in the batch whose
    /// outcome is still to be seen.
    fn order(&self, encoder: &mut Encoder, batch: &mut Batch) -> Result<Waits> {
        let mut failed = None;
        let mut result = Ok(());
        batch.waits.retain(|wait| {
            let Some(other) = self.shared.queue(wait.stream) else { return false };
            match other.progress.outcome(wait.sequence) {
                Outcome::Done => return false,
                Outcome::Failed(error) => failed = Some(error),
                Outcome::Pending if failed.is_none() && result.is_ok() => {
                    result = encoder.event.order(&other.stream, &self.stream);
                }
                Outcome::Pending => {}
            }
            true
        });
        result.map_err(|failure| self.gpu.note(&failure))?;
        Ok(failed.map_or(Waits::Ordered, Waits::Failed))
    }
}

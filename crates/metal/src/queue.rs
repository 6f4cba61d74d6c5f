//! A queue: where the batches of a stream run, and how it is known that they have.
//!
//! The value of a shared event counts the batches that are through. Every command buffer but the first waits for the one before
//! it, by the value of an event: memory is untracked, so nothing else orders them. And a command buffer that fails
//! gives no signal: its handler notes the failure and then sets the value, so that what comes behind it runs, nobody waits for
//! ever, and whoever sees the value sees the failure.

mod timeline;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use block2::RcBlock;
use millstream_core::sync::schedule::{self, AtomicU32};
use millstream_gpu::{Binding, Failure, HostVisible, MAX_IN_FLIGHT, Memory, fenced};
use millstream_kernels::{FAULT_HEADER_WORDS, fault_record_bytes};
use objc2::msg_send;
use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLCommandBuffer, MTLCommandBufferStatus, MTLCommandQueue, MTLDevice, MTLEvent, MTLSharedEvent,
};

pub(crate) use self::timeline::{Completion, Timeline};
use crate::failure;
use crate::gpu::Gpu;
use crate::memory::{HostMemory, object};
use crate::objects::{Obj, Raw, RawBufferObject, Ref, pooled};
use crate::prepared::Prepared;

/// Command buffers that a queue takes before it blocks, for each stream that uses it: far more than we have in flight.
const QUEUE_CAP: usize = 128;
/// Command buffers of a stream that may be open when one more is made for a part of a batch.
pub(crate) const MAX_OPEN: usize = QUEUE_CAP - 2 * MAX_IN_FLIGHT;
/// A wait of a thread is cut into slices, so that it looks after the device now and then.
const WAIT_SLICE: Duration = Duration::from_millis(20);
/// How long a new queue waits for the objects of closed ones: handlers come soon after the end of a batch.
const WAIT_FOR_HANDLERS: Duration = Duration::from_millis(20);

/// What a queue is made of. It outlives the queue, and serves another one then: command queues are scarce.
pub(crate) struct QueueObjects {
    queue: Obj<dyn MTLCommandQueue>,
    /// Its value is the number of the last batch that is through.
    event: Obj<dyn MTLSharedEvent>,
    /// Orders the parts of a batch that has several.
    gate: Obj<dyn MTLSharedEvent>,
    /// A fault record for each batch in flight.
    faults: HostMemory,
}

/// Where batches run.
pub(crate) struct MetalQueue {
    gpu: &'static Gpu,
    objects: &'static QueueObjects,
    /// Values of the events when this queue began.
    first_tick: u64,
    first_gate: u64,
    pub timeline: Arc<Timeline>,
    record_bytes: usize,
    commands: usize,
    closed: AtomicBool,
}

/// What one thread at a time fills a queue with.
pub(crate) struct MetalEncoder {
    /// What handlers need.
    handlers: Arc<Handlers>,
    /// What the next command buffer waits for.
    pub waits: Vec<(Raw<dyn MTLSharedEvent>, u64)>,
    /// The list that is launched next.
    pub list: Prepared,
    /// The value of the gate that the last part of a batch left.
    pub gate: u64,
}

impl MetalQueue {
    /// A queue for batches of at most so many Commands, and what fills it.
    ///
    /// # Errors
    ///
    /// What cannot be had.
    pub fn new(gpu: &'static Gpu, commands: usize) -> Result<(Self, MetalEncoder), Failure> {
        pooled(|| {
            let record_bytes = fault_record_bytes(commands).next_multiple_of(256);
            let objects = gpu.queue_objects(record_bytes * MAX_IN_FLIGHT)?;
            let (first_tick, first_gate) =
                (objects.event.signaledValue(), objects.gate.signaledValue());
            let timeline = Arc::<Timeline>::default();
            gpu.deferred.add(&timeline);
            let handlers =
                Handlers { gpu, timeline: Arc::clone(&timeline), objects, first_tick, first_gate };
            let (handlers, list) = (Arc::new(handlers), Prepared::default());
            let encoder = MetalEncoder { handlers, waits: Vec::new(), list, gate: 0 };
            let closed = AtomicBool::new(false);
            let own = Self {
                gpu,
                objects,
                first_tick,
                first_gate,
                timeline,
                record_bytes,
                commands,
                closed,
            };
            Ok((own, encoder))
        })
    }

    /// Gives the objects to another queue when all command buffers have been handled: what is still in flight would raise the event
    /// of who has them then.
    pub fn close(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.gpu.deferred.close(&self.timeline);
            self.gpu.spare_queues().leaving += 1;
            self.gpu.deferred.defer(Leaving { gpu: self.gpu, objects: self.objects });
        }
    }

    /// The event, and the value that it has when so many batches are through.
    pub fn batch_event(&self, tick: u64) -> (&'static Ref<dyn MTLSharedEvent>, u64) {
        (&self.objects.event, self.first_tick + tick)
    }

    /// The event that orders parts, and a value of it.
    pub fn gate_event(&self, gate: u64) -> (&'static Ref<dyn MTLSharedEvent>, u64) {
        (&self.objects.gate, self.first_gate + gate)
    }

    /// A command buffer that retains nothing of what it uses.
    ///
    /// # Errors
    ///
    /// There is none to be had.
    pub fn command_buffer(&self) -> Result<Obj<dyn MTLCommandBuffer>, Failure> {
        let made = self.objects.queue.commandBufferWithUnretainedReferences();
        object(made, "commandBufferWithUnretainedReferences", "command buffer")
    }

    /// Hands a command buffer over. What it signals follows from what it completes.
    pub fn commit(
        &self,
        commands: &Ref<dyn MTLCommandBuffer>,
        encoder: &MetalEncoder,
        completes: Completion,
    ) {
        let signal = match completes {
            Completion::Batch(tick) => Some(self.batch_event(tick)),
            Completion::Part { gate, time: None, .. } => Some(self.gate_event(gate)),
            Completion::Part { time: Some(_), .. } => None,
        };
        if let Some((event, value)) = signal {
            commands.encodeSignalEvent_value(as_event(event), value);
        }
        self.timeline.commit(completes, |number| {
            let handlers = Arc::clone(&encoder.handlers);
            let handler = RcBlock::new(move |commands: NonNull<Ref<dyn MTLCommandBuffer>>| {
                // SAFETY: Metal passes a command buffer that lives through the call.
                handlers.handle(unsafe { commands.as_ref() }, number);
            });
            // SAFETY: Metal keeps the block, which any thread may call.
            unsafe { commands.addCompletedHandler(RcBlock::as_ptr(&handler)) };
            commands.commit();
        });
    }

    /// How many batches are through.
    pub fn completed(&self) -> u64 {
        seen(&self.objects.event) - self.first_tick
    }

    /// Blocks until so many batches are through, or the time is over.
    pub fn wait(&self, tick: u64, timeout: Duration) {
        let slice = timeout.min(WAIT_SLICE).as_millis().max(1) as u64;
        let (event, value) = self.batch_event(tick);
        // Who waits asks `completed` then, which orders what it reads; here nothing is read.
        pooled(|| event.waitUntilSignaledValue_timeoutMS(value, slice));
    }

    /// The place of the fault record that every list names. What is launched gets one of its own.
    pub fn fault_place(&self) -> Binding<RawBufferObject> {
        Binding { segment: Memory::segment(&self.objects.faults), offset: 0 }
    }

    /// The offset of the record of a batch, which is zero again.
    pub fn fault_record(&self, tick: u64) -> usize {
        let offset = self.record_offset(tick);
        let words = self.record(tick);
        if words[0].load(schedule::Ordering::Relaxed) != 0 {
            words.iter().for_each(|word| word.store(0, schedule::Ordering::Relaxed));
        }
        offset
    }

    fn record_offset(&self, tick: u64) -> usize {
        (tick % MAX_IN_FLIGHT as u64) as usize * self.record_bytes
    }

    fn record(&self, tick: u64) -> &[AtomicU32] {
        let host = HostVisible::host(&self.objects.faults);
        let words = FAULT_HEADER_WORDS + self.commands;
        // SAFETY: the record lies in the memory, which lives as long as the process. A batch of another tick has another record
        // as long as it is in flight, and the GPU writes whole words.
        unsafe {
            let record = host.as_ptr().add(self.record_offset(tick)).cast::<AtomicU32>();
            std::slice::from_raw_parts(record, words)
        }
    }

    /// The codes of a batch that is through, if there are any.
    pub fn faults(&self, tick: u64) -> Option<&[AtomicU32]> {
        let record = self.record(tick);
        (record[0].load(schedule::Ordering::Relaxed) != 0).then(|| &record[FAULT_HEADER_WORDS..])
    }
}

impl Drop for MetalQueue {
    fn drop(&mut self) {
        self.close();
    }
}

/// An event as what command buffers take.
pub(crate) fn as_event(event: &Ref<dyn MTLSharedEvent>) -> &Ref<dyn MTLEvent> {
    ProtocolObject::from_ref(event)
}

/// The value of an event. What was written before it was set is visible to the calling thread: results, fault records, and failures
/// that were noted. Metal does not say that the read alone sees to that.
fn seen(event: &Ref<dyn MTLSharedEvent>) -> u64 {
    fenced::acquire(|| event.signaledValue())
}

/// Sets an event, unless it has come further: it never goes back. What was written before is visible to who sees the value.
fn raise(event: &Ref<dyn MTLSharedEvent>, value: u64) {
    if event.signaledValue() < value {
        fenced::release(|| event.setSignaledValue(value));
    }
}

/// `GPUEndTime`, in seconds. (The binding wants one more crate for the type.)
fn gpu_end(commands: &Ref<dyn MTLCommandBuffer>) -> f64 {
    // SAFETY: a property of command buffers, of this type.
    unsafe { msg_send![commands, GPUEndTime] }
}

/// What the handlers of a queue need.
struct Handlers {
    gpu: &'static Gpu,
    timeline: Arc<Timeline>,
    objects: &'static QueueObjects,
    first_tick: u64,
    first_gate: u64,
}

impl Handlers {
    /// Metal calls it when a command buffer is through, on a thread of its own, some time after its event.
    fn handle(&self, commands: &Ref<dyn MTLCommandBuffer>, number: u64) {
        let Self { gpu, timeline, objects, .. } = self;
        pooled(|| {
            let failed = commands.status() == MTLCommandBufferStatus::Error;
            let failure = failed.then(|| failure::of_command_buffer(commands.error().as_deref()));
            if let Some(failure) = failure.as_ref().filter(|failure| failure.sticky) {
                drop(gpu.status.note(failure));
            }
            // Noted before the value is set: who sees the value sees the failure.
            match timeline.end(number, failure) {
                Some(Completion::Batch(tick)) => raise(&objects.event, self.first_tick + tick),
                Some(Completion::Part { gate: value, time, .. }) => {
                    if let Some(time) = time {
                        let end_ns = gpu.clock.of_end(gpu_end(commands));
                        // SAFETY: the batch that wants it keeps the memory, and comes no further before the gate is set.
                        unsafe { (time as *mut u64).write_volatile(end_ns) };
                    }
                    raise(&objects.gate, self.first_gate + value);
                }
                None => {}
            }
            timeline.handle(number);
        });
        gpu.deferred.sweep();
    }
}

/// Objects of queues that are closed, and those that streams share.
#[derive(Default)]
pub(crate) struct SpareQueues {
    objects: Vec<&'static QueueObjects>,
    /// Command queues that streams share, where they do.
    shared: Vec<Obj<dyn MTLCommandQueue>>,
    made: usize,
    /// Objects of closed queues with command buffers that were not handled yet.
    leaving: usize,
    /// Memory of fault records, which outlives the objects that it was made for.
    records: usize,
}

impl SpareQueues {
    /// What lives as long as the process because a queue was made: command queues, events and fault records.
    pub fn kept(&self) -> [usize; 3] {
        let queues = if self.shared.is_empty() { self.made } else { self.shared.len() };
        [queues, 2 * self.made, self.records]
    }

    /// Objects with so many bytes for fault records.
    fn take(&mut self, record_bytes: usize) -> Option<&'static QueueObjects> {
        let fits = |objects: &&QueueObjects| objects.faults.bytes() >= record_bytes;
        self.objects.iter().position(fits).map(|index| self.objects.swap_remove(index))
    }
}

/// Objects of a closed queue. They are spare when this is dropped.
struct Leaving {
    gpu: &'static Gpu,
    objects: &'static QueueObjects,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut spare = self.gpu.spare_queues();
        spare.objects.push(self.objects);
        spare.leaving -= 1;
    }
}

impl Gpu {
    pub fn spare_queues(&self) -> MutexGuard<'_, SpareQueues> {
        self.spare_queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Objects of a closed queue, or new ones, with so many bytes for fault records.
    fn queue_objects(&'static self, record_bytes: usize) -> Result<&'static QueueObjects, Failure> {
        if let Some(objects) = self.spare_objects(record_bytes) {
            return Ok(objects);
        }
        // With no lock held: it may wait for memory.
        let faults = HostMemory::new(self, record_bytes)?;
        let mut spare = self.spare_queues();
        let objects = match spare.objects.pop() {
            // Only its records are too small. A closed queue may still name them, so they stay.
            Some(QueueObjects { queue, event, gate, .. }) => QueueObjects {
                queue: queue.clone(),
                event: event.clone(),
                gate: gate.clone(),
                faults,
            },
            None => self.new_queue_objects(&mut spare, faults)?,
        };
        spare.records += 1;
        Ok(Box::leak(Box::new(objects)))
    }

    /// Objects of a closed queue. Waits a moment for handlers if there are some that will be spare then.
    fn spare_objects(&self, record_bytes: usize) -> Option<&'static QueueObjects> {
        // Some, which may be none: there is nothing to wait for.
        let take = || {
            let mut spare = self.spare_queues();
            let found = spare.take(record_bytes);
            (found.is_some() || spare.leaving == 0).then_some(found)
        };
        self.deferred.retry(WAIT_FOR_HANDLERS, take).flatten()
    }

    fn new_queue_objects(
        &self,
        spare: &mut SpareQueues,
        faults: HostMemory,
    ) -> Result<QueueObjects, Failure> {
        let event = |device: &Ref<dyn MTLDevice>| {
            object(device.newSharedEvent(), "newSharedEvent", "shared event")
        };
        let (event, gate) = (event(&self.device)?, event(&self.device)?);
        let queue = self.command_queue(spare)?;
        spare.made += 1;
        Ok(QueueObjects { queue, event, gate, faults })
    }

    /// A command queue of its own, or one that streams share.
    fn command_queue(&self, spare: &mut SpareQueues) -> Result<Obj<dyn MTLCommandQueue>, Failure> {
        let make = |streams: usize| -> Result<_, Failure> {
            let made = self.device.newCommandQueueWithMaxCommandBufferCount(QUEUE_CAP * streams);
            let queue = object(made, "newCommandQueueWithMaxCommandBufferCount", "command queue")?;
            self.residency.add_queue(&queue);
            Ok(queue)
        };
        let Some(count) = self.settings.queues else { return make(1) };
        if spare.shared.len() < count {
            let streams = millstream_core::MAX_STREAMS as usize;
            spare.shared.push(make(streams.div_ceil(count))?);
            return Ok(spare.shared[spare.shared.len() - 1].clone());
        }
        Ok(spare.shared[spare.made % count].clone())
    }
}

#[cfg(test)]
mod tests;

//! The queue of one stream.
//!
//! It has three locks. `submitter` is held during a submit, by one thread at a time as core promises. The lock of
//! `in_flight` is held for moments. `host` has its own lock, for threads that record large transfers. None is held
//! while waiting for the device.

mod failures;
mod flight;
mod retire;
mod submit;
mod wait;

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use millstream_core::profiler::StreamProfile;
use millstream_core::sync::schedule::{
    AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, PoisonError,
};
use millstream_core::{Batch, HostBytes, Progress, Queue, QueueContext, Reclaim, Result};

pub(crate) use self::failures::Failures;
use self::flight::InFlight;
use self::submit::Submitter;
use crate::backend::Shared;
use crate::lowering::Timestamps;
use crate::memory::{HostMemory, Staging};
use crate::platform::Platform;

/// The queue of one stream. Aligned so that queues share no cache line.
#[repr(align(128))]
pub(crate) struct GpuQueue<P: Platform> {
    id: u32,
    platform: P,
    shared: Arc<Shared<P>>,
    pub progress: Arc<Progress>,
    profile: Arc<StreamProfile>,
    /// `None` after the device was closed.
    submitter: Mutex<Option<Submitter<P>>>,
    in_flight: InFlight<Submitted<P>>,
    /// Host memory of transfers, with its own lock.
    host: HostMemory<P>,
    /// Threads that are parked until this stream advances.
    pub parked: AtomicU32,
    /// The device lacked memory for a batch: who waits next, with no lock held, has cached memory given back.
    wants_memory: AtomicBool,
    reclaim: Reclaim,
    /// How many batches were replayed. Counted with the submitter locked.
    replays: AtomicU64,
    /// The platform's queue. It is the last field, so that what batches use is dropped first.
    queue: P::Queue,
}

/// A batch that was submitted.
struct Submitted<P: Platform> {
    batch: Batch,
    /// Whether it was launched up to its end, so that it completes by itself.
    launched: bool,
    staging: Option<Arc<Staging<P>>>,
    timestamps: Option<Timestamps>,
    /// The Commands that the device did not run.
    failures: Failures,
    /// Dropped when the batch has completed.
    keep: Vec<Box<dyn Any + Send>>,
}

impl<P: Platform> GpuQueue<P> {
    /// # Errors
    ///
    /// The error of the device if it cannot have one more queue.
    pub fn new(shared: Arc<Shared<P>>, context: QueueContext) -> Result<Self> {
        let platform = shared.platform.clone();
        // An even number, for the alignment of fault records.
        let commands = shared.options.batch_commands.next_multiple_of(2);
        let made = platform.enter().and_then(|()| platform.new_queue(commands));
        let (queue, encoder) = made.map_err(|failure| platform.status().note(&failure))?;
        let fault_record = platform.fault_record(&queue);
        let submitter = Submitter::new(platform.clone(), encoder, fault_record, commands);
        Ok(Self {
            id: context.stream,
            host: HostMemory::of_queue(platform.clone()),
            platform,
            shared,
            progress: context.progress,
            profile: context.profile,
            submitter: Mutex::new(Some(submitter)),
            in_flight: InFlight::default(),
            parked: AtomicU32::new(0),
            wants_memory: AtomicBool::new(false),
            reclaim: context.reclaim,
            replays: AtomicU64::new(0),
            queue,
        })
    }

    /// Whether the oldest batch in flight is complete. Two loads.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.in_flight.is_ready(self.platform.completed(&self.queue))
    }

    /// Frees what the queue needs for submitting. Nothing can be submitted anymore.
    pub fn close(&self) {
        let submitter = self.submitter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.platform.enter().is_ok() {
            drop(submitter);
            self.host.close();
            self.platform.close(&self.queue);
        }
    }
}

impl<P: Platform> Queue for GpuQueue<P> {
    fn submit(&self, batch: Batch) -> Result<()> {
        self.submit_batch(batch)
    }

    fn poll(&self) {
        self.retire();
    }

    fn watch(&self, _sequence: u64) -> Result<()> {
        self.watch_for_tasks()
    }

    fn wait(&self, sequence: u64, deadline: Instant) -> Result<()> {
        self.wait_until(sequence, deadline)
    }

    fn host_memory(&self, bytes: usize) -> Option<HostBytes> {
        self.host.take(bytes).or_else(|| self.shared.host.take(bytes))
    }

    fn trim(&self) {
        self.host.trim();
        self.shared.host.trim();
    }

    fn replays(&self) -> u64 {
        self.replays.load(Ordering::Relaxed)
    }
}

//! The state of one stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::guard::RecorderGuard;
use super::turn::Turn;
use crate::backend::BatchLists;
use crate::counters::LiveCounters;
use crate::device::DeviceInner;
use crate::memory::{Block, StreamCache};
use crate::profiler::StreamProfile;
use crate::sync::schedule::{Mutex, PoisonError};
use crate::sync::shim::AtomicU64;
use crate::sync::{ReturnStack, WakerQueue};
use crate::{Counters, Device, OpKind, Progress, Queue, QueueContext, Reclaim, Result, WaitFor};

/// One stream. Aligned so that streams share no cache line.
///
/// Shared state and its rules: `recorder` is guarded by its lock. `recorded` and `submitted` are written under that
/// lock and read by any thread. `returns` is pushed to by any thread and emptied under the lock. `progress` has its
/// own rules.
#[repr(align(128))]
pub(crate) struct StreamInner {
    id: u32,
    device: &'static DeviceInner,
    queue: Arc<dyn Queue>,
    progress: Arc<Progress>,
    recorder: Mutex<Recorder>,
    recorded: AtomicU64,
    submitted: AtomicU64,
    returns: ReturnStack<Block>,
    counters: LiveCounters,
    profile: Arc<StreamProfile>,
    /// Tasks that wait until they may record here.
    ready_waiters: WakerQueue,
}

/// What the stream's lock guards.
#[derive(Default)]
pub(crate) struct Recorder {
    /// Commands not yet submitted.
    pub batch: BatchLists,
    /// Waits for the next batch; at most one per stream.
    pub waits: SmallVec<[WaitFor; 2]>,
    /// When the batch was begun, if the profiler is on.
    pub begun_ns: Option<u64>,
    /// Whose batch it is.
    pub turn: Turn,
    /// The sequence number of the last command recorded.
    pub recorded: u64,
    /// Batches that the device may still be working on.
    pub in_flight: VecDeque<InFlight>,
    /// The stream's memory.
    pub cache: StreamCache,
    /// Tasks may have become ready with the lock held, and must be woken without it.
    pub releases_tasks: bool,
}

/// A submitted batch: for the in-flight limit, and to name a Command that does not finish.
pub(crate) struct InFlight {
    pub first: u64,
    pub last: u64,
    pub kinds: SmallVec<[OpKind; 16]>,
}

impl StreamInner {
    pub fn new(id: u32, device: &'static DeviceInner) -> Result<Self> {
        let progress = Arc::new(Progress::new());
        let profile = device.profiler().stream(id);
        let queue = device.backend().new_queue(QueueContext {
            stream: id,
            progress: Arc::clone(&progress),
            profile: Arc::clone(&profile),
            reclaim: Reclaim::new(device),
        })?;
        Ok(Self {
            id,
            device,
            queue,
            progress,
            recorder: Mutex::default(),
            recorded: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            returns: ReturnStack::new(),
            counters: LiveCounters::default(),
            profile,
            ready_waiters: WakerQueue::default(),
        })
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn device(&self) -> Device {
        Device::from_inner(self.device)
    }

    pub fn device_inner(&self) -> &'static DeviceInner {
        self.device
    }

    pub fn queue(&self) -> &dyn Queue {
        &*self.queue
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    pub fn counters(&self) -> &LiveCounters {
        &self.counters
    }

    /// The counters of the stream, including those of its queue.
    pub fn read_counters(&self) -> Counters {
        Counters { replays: self.queue.replays(), ..self.counters.read() }
    }

    pub fn profile(&self) -> &StreamProfile {
        &self.profile
    }

    pub fn returns(&self) -> &ReturnStack<Block> {
        &self.returns
    }

    /// Whether the pool has given it to several threads at once.
    pub fn is_shared(&self) -> bool {
        self.counters.sharers.load(Ordering::Relaxed) != 0
    }

    pub fn ready_waiters(&self) -> &WakerQueue {
        &self.ready_waiters
    }

    #[inline]
    pub fn lock(&self) -> RecorderGuard<'_> {
        let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        RecorderGuard::new(self, recorder)
    }

    /// The last sequence number recorded.
    pub fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Acquire)
    }

    /// Whether everything recorded has passed.
    pub fn is_idle(&self) -> bool {
        self.progress.completed() >= self.recorded()
    }

    /// The last sequence number submitted.
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Only with the recorder locked.
    pub fn set_recorded(&self, sequence: u64) {
        self.recorded.store(sequence, Ordering::Release);
    }

    /// Only with the recorder locked.
    pub fn set_submitted(&self, sequence: u64) {
        self.submitted.store(sequence, Ordering::Release);
    }
}

impl Recorder {
    /// The name of the Command with this sequence number, if it is in flight or has just passed.
    pub fn command_name(&self, sequence: u64) -> &'static str {
        let submitted =
            self.in_flight.iter().find(|batch| (batch.first..=batch.last).contains(&sequence));
        if let Some(batch) = submitted {
            return batch.kinds[(sequence - batch.first) as usize].name();
        }
        let first = self.recorded + 1 - self.batch.len() as u64;
        let pending =
            sequence.checked_sub(first).and_then(|index| self.batch.commands.get(index as usize));
        pending.map_or("a finished command", |command| command.op().name())
    }

    /// Adds a batch with these sequence numbers to those in flight.
    pub fn note_in_flight(&mut self, first: u64, last: u64) {
        // Filled in place: moving what was just written in small pieces is slow.
        self.in_flight.push_back(InFlight { first, last, kinds: SmallVec::new() });
        if let Some(batch) = self.in_flight.back_mut() {
            batch.kinds.extend(self.batch.kinds());
        }
    }

    /// Adds a wait, keeping the later one if there is one for that stream.
    pub fn add_wait(&mut self, wait: WaitFor) {
        match self.waits.iter_mut().find(|other| other.stream == wait.stream) {
            Some(other) => other.sequence = other.sequence.max(wait.sequence),
            None => self.waits.push(wait),
        }
    }
}

// A panic leaves a stream usable: no lock is held while foreign code runs, and what the locks guard is consistent
// whenever they are free.
impl std::panic::RefUnwindSafe for StreamInner {}

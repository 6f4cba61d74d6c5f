//! Idle workers, and how they are notified.
//!
//! Each stream has a ready flag, on a cache line of its own, which also says since when: the stream that has been ready for
//! the longest comes first. A worker that finds no flag set marks itself
//! idle, checks the flags once more, and parks. Whoever sets a flag checks for an idle worker afterwards.
//! One of the two always sees the other, so no notification is missed.

use millstream_core::MAX_STREAMS;
use millstream_core::sync::shim::{
    AtomicBool, AtomicU64, Condvar, Mutex, Ordering, fence, lock, spin_loop, wait_until,
};

/// Ready flags of streams, idle workers and their parkers. A `Task` is handed to one idle worker directly.
pub(crate) struct IdleWorkers<Task> {
    ready: Box<[Flag]>,
    /// Flags that were set, or found set, so far.
    notified: AtomicU64,
    /// A bit per idle worker. Whoever clears a bit must unpark that worker.
    idle: Box<[AtomicU64]>,
    parkers: Box<[Parker<Task>]>,
    stopped: AtomicBool,
}

/// 0 if not set. Counts down from the highest number, so that of two that set it the first counts, and of two flags the higher
/// was set first.
#[repr(align(128))]
struct Flag(AtomicU64);

struct Parker<Task> {
    wake: Mutex<Option<Wake<Task>>>,
    changed: Condvar,
}

/// Why a worker was woken.
#[derive(Debug)]
pub(crate) enum Wake<Task> {
    /// Some stream may be ready.
    Ready,
    /// There is a task for this worker.
    Task(Task),
}

impl<Task> IdleWorkers<Task> {
    pub fn new(workers: usize) -> Self {
        Self::with_streams(workers, MAX_STREAMS as usize)
    }

    fn with_streams(workers: usize, streams: usize) -> Self {
        Self {
            ready: (0..streams).map(|_| Flag(AtomicU64::new(0))).collect(),
            notified: AtomicU64::new(0),
            idle: (0..workers.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            parkers: (0..workers)
                .map(|_| Parker { wake: Mutex::new(None), changed: Condvar::new() })
                .collect(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Marks a stream as ready, and wakes an idle worker for it.
    pub fn notify(&self, stream: u32) {
        let since = u64::MAX - self.notified.fetch_add(1, Ordering::Relaxed);
        // Pairs with `take_ready`.
        if self.ready[stream as usize].0.fetch_max(since, Ordering::AcqRel) != 0 {
            // Whoever set it wakes a worker. The worker that takes it sees what came before this call too.
            return;
        }
        // Orders the flag before the check for idle workers; see `park`.
        fence(Ordering::SeqCst);
        if let Some(worker) = self.claim_idle() {
            self.unpark(worker, Wake::Ready);
        }
    }

    /// Takes the stream whose flag has been set for the longest.
    pub fn take_ready(&self) -> Option<u32> {
        loop {
            let flags = self.ready.iter().map(|flag| flag.0.load(Ordering::Relaxed));
            let (_, stream) = flags.zip(0..).filter(|(since, _)| *since != 0).max()?;
            // Pairs with every `notify` since it was taken last. If another worker was faster, the next is looked for.
            if self.ready[stream as usize].0.swap(0, Ordering::AcqRel) != 0 {
                return Some(stream);
            }
        }
    }

    #[cfg(all(test, not(loom)))]
    pub fn is_ready(&self, stream: u32) -> bool {
        self.ready[stream as usize].0.load(Ordering::Relaxed) != 0
    }

    /// Whether a flag is set.
    pub fn any_ready(&self) -> bool {
        self.ready.iter().any(|flag| flag.0.load(Ordering::Relaxed) != 0)
    }

    /// Takes an idle worker, which the caller must now unpark.
    fn claim_idle(&self) -> Option<usize> {
        for (index, word) in self.idle.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                match word.compare_exchange_weak(
                    bits,
                    bits & !bit,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return Some(index * 64 + bit.trailing_zeros() as usize),
                    Err(current) => bits = current,
                }
            }
        }
        None
    }

    fn unpark(&self, worker: usize, wake: Wake<Task>) {
        let parker = &self.parkers[worker];
        *lock(&parker.wake) = Some(wake);
        parker.changed.notify_one();
    }

    /// Hands a task to an idle worker; gives it back if there is none.
    pub fn dispatch(&self, task: Task) -> Result<(), Task> {
        match self.claim_idle() {
            Some(worker) => {
                self.unpark(worker, Wake::Task(task));
                Ok(())
            }
            None => Err(task),
        }
    }

    /// Marks a worker as idle. It must [`park`](Self::park) next, as marked, and do nothing that takes long before.
    pub fn mark_idle(&self, worker: usize) {
        self.idle[worker / 64].fetch_or(1 << (worker % 64), Ordering::AcqRel);
    }

    /// Parks a worker until there is something to do; `marked` if it has marked itself as idle before. It spins first, as
    /// long as `keep_spinning` says so. `None` after `stop`.
    pub fn park(
        &self,
        worker: usize,
        marked: bool,
        keep_spinning: impl Fn() -> bool,
    ) -> Option<Wake<Task>> {
        let (word, bit) = (&self.idle[worker / 64], 1u64 << (worker % 64));
        if !marked {
            self.mark_idle(worker);
        }
        // Either `notify` or `stop` sees the bit when it checks for idle workers, or the checks below see its flag.
        fence(Ordering::SeqCst);
        let stopped = self.stopped.load(Ordering::Acquire);
        if (stopped || self.any_ready()) && word.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
            return (!stopped).then_some(Wake::Ready);
        }
        // Whoever clears the bit leaves a `Wake`, also for a worker that spins.
        while word.load(Ordering::Relaxed) & bit != 0 && keep_spinning() {
            spin_loop();
        }
        // The bit is set, or somebody cleared it and is about to leave a `Wake`.
        let parker = &self.parkers[worker];
        let mut wake = lock(&parker.wake);
        loop {
            if let Some(wake) = wake.take() {
                let leave = matches!(wake, Wake::Ready) && self.stopped.load(Ordering::Acquire);
                return (!leave).then_some(wake);
            }
            (wake, _) = wait_until(&parker.changed, wake, None);
        }
    }

    /// Tells every worker to stop. Ready flags that are set stay set.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // Orders the flag before the check for idle workers; see `park`.
        fence(Ordering::SeqCst);
        while let Some(worker) = self.claim_idle() {
            self.unpark(worker, Wake::Ready);
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

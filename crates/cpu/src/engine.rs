//! The scheduler: which thread executes which batch, and when.
//!
//! A thread that waits for a stream executes it itself. Workers execute what nobody waits for. Either way a
//! batch needs a permit ([`Admission`]). There is one more than there are cores: a thread that is handed a permit
//! must first wake up, and its core would idle meanwhile.
//!
//! Long calls are many times longer than it takes to wake up, and three on two cores push each other out of the caches. So when
//! their callers would have to wait, workers execute them as well, one after the other: no core idles, no thread
//! wakes up between two calls, and the spare permit stays where it is.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_core::{Error, MAX_STREAMS, Result, WaitFor};

use crate::admission::{Admission, Permit};
use crate::callers::Callers;
use crate::helpers::Helpers;
use crate::idle_workers::{IdleWorkers, Wake};
use crate::latch::OwnerParker;
use crate::parallel_for::Task;
use crate::queue::{Begin, CpuQueue, Executed};
use crate::work_budget::WorkBudget;

/// How long a worker that has run a task spins for the next one. It has no permit meanwhile, and parks at
/// once when all are taken, so it is in nobody's way.
const SPIN_TIME: Duration = Duration::from_micros(50);

pub(crate) struct Engine {
    queues: Box<[OnceLock<Arc<CpuQueue>>]>,
    admission: Admission,
    pub idle_workers: IdleWorkers<Task>,
    pub intra_op: bool,
    pub callers: Callers,
    pub helpers: Helpers,
    /// Where the thread that executes a stream sleeps until its helpers have left.
    owner_parkers: Box<[OwnerParker]>,
    cores: usize,
}

impl Engine {
    /// An engine for that many cores, perhaps with a spare permit.
    pub fn new(threads: usize, has_spare: bool, intra_op: bool) -> Arc<Self> {
        Arc::new(Self {
            queues: (0..MAX_STREAMS).map(|_| OnceLock::new()).collect(),
            admission: Admission::new(threads, has_spare),
            cores: threads,
            idle_workers: IdleWorkers::new(threads),
            intra_op: intra_op && threads > 1,
            callers: Callers::new(),
            helpers: Helpers::new(),
            owner_parkers: (0..MAX_STREAMS).map(|_| OwnerParker::new()).collect(),
        })
    }

    pub fn start_workers(self: &Arc<Self>, count: usize) -> Result<Vec<JoinHandle<()>>> {
        self.start_workers_by(count, |worker| {
            let engine = Arc::clone(self);
            std::thread::Builder::new()
                .name(format!("millstream-{worker}"))
                .spawn(move || engine.work(worker))
        })
    }

    /// Starts all workers or none: when one cannot be started, the others are stopped.
    pub fn start_workers_by(
        &self,
        count: usize,
        mut start: impl FnMut(usize) -> std::io::Result<JoinHandle<()>>,
    ) -> Result<Vec<JoinHandle<()>>> {
        let mut workers = Vec::with_capacity(count);
        for worker in 0..count {
            match start(worker) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    self.stop_workers(workers);
                    return Err(Error::Unavailable {
                        name: "cpu".into(),
                        reason: format!("a worker thread could not be started: {error}"),
                    });
                }
            }
        }
        Ok(workers)
    }

    /// Stops the workers and waits until they have ended.
    pub fn stop_workers(&self, workers: Vec<JoinHandle<()>>) {
        self.idle_workers.stop();
        for worker in workers {
            // A worker catches the panics of kernels; one that ended otherwise has nothing to report.
            let _ = worker.join();
        }
    }

    pub fn owner_parker(&self, stream: u32) -> &OwnerParker {
        &self.owner_parkers[stream as usize]
    }

    /// Cores that execute.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Batches that execute at a time.
    pub fn permits(&self) -> usize {
        self.admission.permits()
    }

    /// Cores that nobody has a permit for.
    pub fn free_cores(&self) -> usize {
        self.admission.free_cores()
    }

    pub fn add_queue(&self, stream: u32, queue: Arc<CpuQueue>) {
        // Core makes one queue per stream; a second would be a defect there, and the first stays.
        let _ = self.queues[stream as usize].set(queue);
    }

    pub fn queue(&self, stream: u32) -> &CpuQueue {
        self.queues[stream as usize].get().expect("waits name streams that have a queue")
    }

    /// The loop of a worker.
    pub fn work(&self, worker: usize) {
        let mut last_task = None;
        // Whether somebody may hand it a task, which it must then run.
        let mut marked = false;
        while marked || !self.idle_workers.is_stopped() {
            if !marked && let Some(stream) = self.idle_workers.take_ready() {
                self.run_streams(stream);
                continue;
            }
            // Whoever shared a Command will soon share another, and waking takes longer than many Commands.
            let keep_spinning = || {
                last_task.is_some_and(|at: Instant| at.elapsed() < SPIN_TIME)
                    && self.free_cores() > 0
            };
            match self.idle_workers.park(worker, marked, keep_spinning) {
                Some(Wake::Task(task)) => {
                    task.run(self, worker);
                    marked = true;
                    last_task = Some(Instant::now());
                }
                Some(Wake::Ready) => marked = false,
                None => return,
            }
        }
    }

    /// Runs a batch of a stream in the background, and of those that are ready after it, with one permit, for as long as
    /// nobody stands in line for it.
    fn run_streams(&self, first: u32) {
        let (mut permit, mut next) = (None, Some(first));
        while let Some(stream) = next {
            self.run_stream(stream, &mut permit);
            let goes_on = permit.is_some() && !self.admission.has_waiters();
            next = goes_on.then(|| self.idle_workers.take_ready()).flatten();
        }
        if let Some(permit) = permit {
            self.admission.give_back(permit);
        }
    }

    /// Runs one batch of a stream in the background, and notifies a worker if there are more.
    fn run_stream(&self, stream: u32, permit: &mut Option<Permit>) {
        let queue = self.queue(stream);
        match queue.begin() {
            Begin::Run(batch) => {
                if permit.is_none() {
                    // Without a deadline a permit always comes.
                    *permit = self.admission.enter_worker();
                }
                let run = || queue.execute(batch, &mut WorkBudget::unlimited());
                let executed = self.admission.run_for(stream, run);
                if matches!(executed, Executed::Whole { more: true } | Executed::InPart) {
                    self.idle_workers.notify(stream);
                }
            }
            Begin::Blocked(wait) => self.retry_after(stream, wait),
            // Who has the token checks for more when it is done.
            Begin::Busy | Begin::Empty => {}
        }
    }

    /// A permit for a caller that need not wait for it.
    fn enter_now(&self, stream: u32) -> Option<Permit> {
        self.admission.enter_now(stream).or_else(|| {
            // A long call that others wait before is for the workers.
            let is_next = !self.admission.is_long(stream)
                || !(self.admission.has_waiters() || self.idle_workers.any_ready());
            is_next.then(|| self.admission.enter_spare()).flatten()
        })
    }

    /// Has a blocked stream tried again when the one it waits for has come further.
    fn retry_after(&self, stream: u32, wait: WaitFor) {
        let other = self.queue(wait.stream);
        let passed = || other.progress.passed(wait.sequence);
        if !other.dependents.add_and_check(stream, passed) {
            // It may have been submitted by somebody who meant to wait and gave up.
            if other.has_pending() {
                self.idle_workers.notify(wait.stream);
            }
        } else {
            self.idle_workers.notify(stream);
        }
    }

    /// Executes a stream on the calling thread until it has passed a sequence number, and the streams that it
    /// waits for. One permit serves for all of it, so that a call of several batches stands in line once.
    /// Commands that would last beyond the deadline are left to the workers, see [`WorkBudget`].
    pub fn drive(&self, stream: u32, sequence: u64, deadline: Instant) {
        // A stack of targets: a blocked stream puts the one that it waits for on top.
        // Waits name submitted work only, so this has no cycles.
        let mut targets = vec![WaitFor { stream, sequence }];
        let mut permit = None;
        while let Some(&target) = targets.last() {
            let queue = self.queue(target.stream);
            let completed = queue.progress.completed();
            if queue.progress.passed(target.sequence) {
                targets.pop();
                continue;
            }
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            let wait = |permit: &mut Option<Permit>| {
                // Nobody keeps a core from others while waiting.
                if let Some(permit) = permit.take() {
                    self.admission.give_back(permit);
                }
                queue.progress.wait_for_change(completed, target.sequence, Some(deadline));
            };
            match queue.begin() {
                Begin::Run(batch) => {
                    permit = permit.or_else(|| self.enter_now(stream));
                    if permit.is_none() && self.admission.is_long(stream) {
                        queue.put_back(batch);
                        self.idle_workers.notify(target.stream);
                        wait(&mut permit);
                        continue;
                    }
                    permit = permit.or_else(|| self.admission.enter(deadline));
                    if permit.is_none() {
                        queue.put_back(batch);
                        continue;
                    }
                    match queue.execute(batch, &mut WorkBudget::until(deadline, now)) {
                        // A worker that came for the rest in the meantime found the stream busy.
                        Executed::Whole { more } => {
                            if more && queue.progress.passed(target.sequence) {
                                self.idle_workers.notify(target.stream);
                            }
                        }
                        Executed::InPart => {
                            self.idle_workers.notify(target.stream);
                            wait(&mut permit);
                        }
                    }
                }
                Begin::Blocked(wait) => targets.push(wait),
                Begin::Busy | Begin::Empty => wait(&mut permit),
            }
        }
        if let Some(permit) = permit {
            // Before the permit can go to a helper.
            self.callers.leaves(stream);
            self.admission.leave(stream, permit);
        }
        // Out of time: what is left is for the workers.
        for target in targets {
            if self.queue(target.stream).has_pending() {
                self.idle_workers.notify(target.stream);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

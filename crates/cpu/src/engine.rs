//! Who executes what, and when.
//!
//! A thread that waits for a stream executes it itself; workers execute what nobody waits for. Either
//! way a batch needs a permit, handed out in order of arrival. There are as many as cores and one more:
//! a thread that is handed a permit must first wake up, and in the meantime the core of the one that gave
//! it would idle.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_core::sync::{FairPool, Permits};
use millstream_core::{Error, MAX_STREAMS, Result, WaitFor};

use crate::callers::Callers;
use crate::doorbell::{Call, Doorbell};
use crate::helpers::Helpers;
use crate::queue::{Begin, CpuQueue};
use crate::team::Help;

/// How long a worker that has helped stays awake for the next call. It keeps no permit meanwhile, and
/// sleeps at once when all are taken, so it is in nobody's way.
const LINGER: Duration = Duration::from_micros(50);

pub(crate) struct Engine {
    queues: Box<[OnceLock<Arc<CpuQueue>>]>,
    pub gate: FairPool<Permits>,
    pub bell: Doorbell<Help>,
    pub intra_op: bool,
    pub callers: Callers,
    pub helpers: Helpers,
    /// Permits beyond cores.
    spare: usize,
}

impl Engine {
    /// An engine for that many cores, with `spare` permits more.
    pub fn new(threads: usize, spare: usize, intra_op: bool) -> Arc<Self> {
        Arc::new(Self {
            queues: (0..MAX_STREAMS).map(|_| OnceLock::new()).collect(),
            gate: FairPool::permits((threads + spare) as u32),
            spare,
            bell: Doorbell::new(threads),
            intra_op: intra_op && threads > 1,
            callers: Callers::new(),
            helpers: Helpers::new(),
        })
    }

    pub fn start_workers(self: &Arc<Self>, count: usize) -> Result<Vec<JoinHandle<()>>> {
        (0..count)
            .map(|worker| {
                let engine = Arc::clone(self);
                std::thread::Builder::new()
                    .name(format!("millstream-{worker}"))
                    .spawn(move || engine.work(worker))
                    .map_err(|error| Error::Unavailable {
                        name: "cpu".into(),
                        reason: format!("a worker thread could not be started: {error}"),
                    })
            })
            .collect()
    }

    /// Cores that no permit is out for.
    pub fn free_cores(&self) -> usize {
        (self.gate.free_word() as usize).saturating_sub(self.spare)
    }

    pub fn add_queue(&self, stream: u32, queue: Arc<CpuQueue>) {
        // Core makes one queue per stream; a second would be a defect there, and the first stays.
        let _ = self.queues[stream as usize].set(queue);
    }

    pub fn queue(&self, stream: u32) -> &CpuQueue {
        self.queues[stream as usize].get().expect("waits name streams that have a queue")
    }

    /// The life of a worker.
    fn work(&self, worker: usize) {
        let mut from = worker;
        let mut helped = None;
        while !self.bell.is_stopped() {
            if let Some(stream) = self.bell.take_ready(from) {
                // The next look starts behind this stream, so that none is starved.
                from = stream as usize + 1;
                self.run_stream(stream);
                continue;
            }
            // Whoever needed help will soon need it again, and waking takes longer than many commands.
            let linger =
                || helped.is_some_and(|at: Instant| at.elapsed() < LINGER) && self.free_cores() > 0;
            match self.bell.sleep(worker, linger) {
                Some(Call::Help(help)) => {
                    help.run(self);
                    helped = Some(Instant::now());
                }
                Some(Call::Look) => {}
                None => return,
            }
        }
    }

    /// Runs one batch of a stream in the background, and sees to it that the rest is run too.
    fn run_stream(&self, stream: u32) {
        let queue = self.queue(stream);
        match queue.begin() {
            Begin::Run(batch) => {
                let more = self.execute(queue, batch);
                if more {
                    self.bell.ring(stream);
                }
            }
            Begin::Blocked(wait) => self.look_again_after(stream, wait),
            // Who has the token looks for more when it is done.
            Begin::Busy | Begin::Empty => {}
        }
    }

    fn execute(&self, queue: &CpuQueue, batch: millstream_core::Batch) -> bool {
        // Without a deadline a permit always comes.
        let permit = self.gate.take(None);
        let more = queue.execute(batch);
        if permit.is_some() {
            self.gate.put(());
        }
        more
    }

    /// Has a blocked stream looked at when the one it waits for has come further.
    fn look_again_after(&self, stream: u32, wait: WaitFor) {
        let other = self.queue(wait.stream);
        other.add_dependent(stream);
        if !other.progress.passed(wait.sequence) {
            // It may have been submitted by somebody who meant to wait and gave up.
            if other.has_pending() {
                self.bell.ring(wait.stream);
            }
        } else {
            self.bell.ring(stream);
        }
    }

    /// Executes, on the calling thread, what stands between a stream and a sequence number. One permit
    /// serves for all of it, so that a call of several batches stands in line once.
    pub fn drive(&self, stream: u32, sequence: u64, deadline: Instant) {
        // What is to be reached, the last first: a blocked stream puts the one it waits for on top.
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
            if Instant::now() >= deadline {
                break;
            }
            match queue.begin() {
                Begin::Run(batch) => {
                    permit = permit.or_else(|| self.gate.take(Some(deadline)));
                    if permit.is_none() {
                        queue.put_back(batch);
                        continue;
                    }
                    let more = queue.execute(batch);
                    // A worker that came for the rest in the meantime found the stream busy.
                    if more && queue.progress.passed(target.sequence) {
                        self.bell.ring(target.stream);
                    }
                }
                Begin::Blocked(wait) => targets.push(wait),
                Begin::Busy | Begin::Empty => {
                    // Nobody keeps a core from others while waiting.
                    if permit.take().is_some() {
                        self.gate.put(());
                    }
                    queue.progress.wait_for_change(completed, target.sequence, Some(deadline));
                }
            }
        }
        if permit.is_some() {
            // Before the permit can go to a helper.
            self.callers.leaves(stream);
            self.gate.put(());
        }
        // Out of time: what is left is for the workers.
        for target in targets {
            if self.queue(target.stream).has_pending() {
                self.bell.ring(target.stream);
            }
        }
    }
}

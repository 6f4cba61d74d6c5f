//! Idle workers, and how they are notified.
//!
//! Each stream has a ready flag, on a cache line of its own. A worker that finds no flag set marks itself
//! idle, checks the flags once more, and parks. Whoever sets a flag checks for an idle worker afterwards.
//! One of the two always sees the other, so no notification is missed.

use millstream_core::MAX_STREAMS;
use millstream_core::sync::shim::{
    AtomicBool, AtomicU64, Condvar, Mutex, Ordering, fence, lock, spin_loop, wait_until,
};

/// Ready flags of streams, idle workers and their parkers. A `Task` is handed to one idle worker directly.
pub(crate) struct IdleWorkers<Task> {
    ready: Box<[Flag]>,
    /// A bit per idle worker. Whoever clears a bit must unpark that worker.
    idle: Box<[AtomicU64]>,
    parkers: Box<[Parker<Task>]>,
    stopped: AtomicBool,
}

#[repr(align(128))]
struct Flag(AtomicBool);

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
            ready: (0..streams).map(|_| Flag(AtomicBool::new(false))).collect(),
            idle: (0..workers.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            parkers: (0..workers)
                .map(|_| Parker { wake: Mutex::new(None), changed: Condvar::new() })
                .collect(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Marks a stream as ready, and wakes an idle worker for it.
    pub fn notify(&self, stream: u32) {
        // Pairs with `take_ready`.
        if self.ready[stream as usize].0.swap(true, Ordering::AcqRel) {
            // Whoever set it wakes a worker. The worker that takes it sees what came before this call too.
            return;
        }
        // Orders the flag before the check for idle workers; see `park`.
        fence(Ordering::SeqCst);
        if let Some(worker) = self.claim_idle() {
            self.unpark(worker, Wake::Ready);
        }
    }

    /// Takes a stream whose flag is set, starting at `from`.
    pub fn take_ready(&self, from: usize) -> Option<u32> {
        let streams = self.ready.len();
        (0..streams).map(|step| (from + step) % streams).find_map(|stream| {
            let flag = &self.ready[stream].0;
            // Pairs with every `notify` since it was taken last.
            let taken = flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::AcqRel);
            taken.then_some(stream as u32)
        })
    }

    fn any_ready(&self) -> bool {
        self.ready.iter().any(|flag| flag.0.load(Ordering::Relaxed))
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

    /// Parks a worker until there is something to do. It spins first, as long as `linger` says so. `None`
    /// after `stop`.
    pub fn park(&self, worker: usize, linger: impl Fn() -> bool) -> Option<Wake<Task>> {
        let (word, bit) = (&self.idle[worker / 64], 1u64 << (worker % 64));
        word.fetch_or(bit, Ordering::AcqRel);
        // Either `notify` or `stop` sees the bit when it checks for idle workers, or the checks below see its flag.
        fence(Ordering::SeqCst);
        let stopped = self.stopped.load(Ordering::Acquire);
        if (stopped || self.any_ready()) && word.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
            return (!stopped).then_some(Wake::Ready);
        }
        // Whoever clears the bit leaves a `Wake`, also for a worker that spins.
        while word.load(Ordering::Relaxed) & bit != 0 && linger() {
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
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_taken_once() {
        let workers = IdleWorkers::<()>::new(1);
        workers.notify(5);
        workers.notify(5);
        assert_eq!(workers.take_ready(0), Some(5));
        assert_eq!(workers.take_ready(0), None);
    }

    #[test]
    fn a_task_comes_back_when_nobody_sleeps() {
        assert_eq!(IdleWorkers::new(2).dispatch(7), Err(7));
    }

    /// A worker parks; the task that it is then called for reaches it.
    fn reaches(workers: usize, worker: usize, linger: impl Fn() -> bool + Sync) {
        let workers = IdleWorkers::new(workers);
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| workers.park(worker, &linger));
            let mut task = 7;
            while let Err(back) = workers.dispatch(task) {
                task = back;
                std::thread::yield_now();
            }
            assert!(matches!(worker.join().unwrap(), Some(Wake::Task(7))));
        });
    }

    #[test]
    fn a_worker_that_lingers_gets_the_task_awake() {
        // It would spin forever if the task did not reach it.
        reaches(1, 0, || true);
    }

    #[test]
    fn a_sleeping_worker_gets_the_task() {
        reaches(70, 69, || false);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Every notification is seen, by a worker that is awake or parks at that moment.
    #[test]
    fn loom_a_notification_is_never_missed() {
        loom::model(|| {
            let workers = Arc::new(IdleWorkers::<()>::with_streams(1, 2));
            let worker = {
                let workers = Arc::clone(&workers);
                thread::spawn(move || {
                    let mut seen = 0;
                    while seen < 2 {
                        match workers.take_ready(0) {
                            Some(_) => seen += 1,
                            None => assert!(workers.park(0, || false).is_some()),
                        }
                    }
                })
            };
            workers.notify(0);
            workers.notify(1);
            worker.join().unwrap();
        });
    }

    /// Whoever takes a flag sees what was done before each notification, also before one that found the flag set.
    #[test]
    fn loom_a_taken_flag_shows_what_was_done_before_the_notification() {
        use loom::sync::atomic::AtomicUsize;
        loom::model(|| {
            let shared = Arc::new((
                IdleWorkers::<()>::with_streams(1, 1),
                [(); 2].map(|()| AtomicUsize::new(0)),
            ));
            let notifier = [0, 1].map(|notifier| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.1[notifier].store(1, Ordering::Relaxed);
                    shared.0.notify(0);
                })
            });
            let done = || shared.1.iter().map(|done| done.load(Ordering::Relaxed)).sum::<usize>();
            let mut seen = 0;
            while seen < 2 {
                match shared.0.take_ready(0) {
                    Some(_) => {
                        assert!(done() > seen, "a notification without anything behind it");
                        seen = done();
                    }
                    None => thread::yield_now(),
                }
            }
            for notifier in notifier {
                notifier.join().unwrap();
            }
        });
    }

    /// A stop is seen by a worker that parks at that moment.
    #[test]
    fn loom_a_stop_is_never_missed() {
        loom::model(|| {
            let workers = Arc::new(IdleWorkers::<()>::with_streams(1, 1));
            let worker = {
                let workers = Arc::clone(&workers);
                thread::spawn(move || assert!(workers.park(0, || false).is_none()))
            };
            workers.stop();
            worker.join().unwrap();
        });
    }

    /// Stopping releases every worker, also one that is called or notified for at that moment.
    #[test]
    fn loom_stop_releases_every_worker() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let workers = Arc::new(IdleWorkers::<u8>::with_streams(2, 1));
            let workers: Vec<_> = (0..2)
                .map(|worker| {
                    let workers = Arc::clone(&workers);
                    thread::spawn(move || {
                        while !workers.is_stopped() {
                            if workers.take_ready(0).is_none() {
                                workers.park(worker, || false);
                            }
                        }
                    })
                })
                .collect();
            workers.notify(0);
            workers.stop();
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }

    /// A task goes to exactly one worker or comes back.
    #[test]
    fn loom_a_task_is_neither_lost_nor_doubled() {
        loom::model(|| {
            let workers = Arc::new(IdleWorkers::<u8>::with_streams(1, 1));
            let worker = {
                let workers = Arc::clone(&workers);
                thread::spawn(move || {
                    let mut done = 0;
                    while !workers.is_stopped() {
                        if let Some(Wake::Task(task)) = workers.park(0, || false) {
                            done += task;
                        }
                    }
                    done
                })
            };
            let given = u8::from(workers.dispatch(1).is_ok());
            workers.stop();
            assert_eq!(worker.join().unwrap(), given);
        });
    }

    /// The same for a worker that stays awake for a while.
    #[test]
    fn loom_a_task_reaches_a_worker_that_lingers() {
        loom::model(|| {
            let workers = Arc::new(IdleWorkers::<u8>::with_streams(1, 1));
            let worker = {
                let workers = Arc::clone(&workers);
                thread::spawn(move || {
                    let mut done = 0;
                    while !workers.is_stopped() {
                        let patience = std::cell::Cell::new(2);
                        let linger = || patience.replace(patience.get() - 1) > 0;
                        if let Some(Wake::Task(task)) = workers.park(0, linger) {
                            done += task;
                        }
                    }
                    done
                })
            };
            let given = u8::from(workers.dispatch(1).is_ok());
            workers.stop();
            assert_eq!(worker.join().unwrap(), given);
        });
    }
}

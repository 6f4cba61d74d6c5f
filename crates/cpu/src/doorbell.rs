//! How workers learn that there is something to do.
//!
//! Each stream has a flag, on a cache line of its own, that says its queue is worth a look. A worker
//! that finds no flag marks itself idle, looks once more, and sleeps. Whoever sets a flag looks for an
//! idle worker afterwards. One of the two always sees the other, so no work is left lying.

use millstream_core::MAX_STREAMS;
use millstream_core::sync::shim::{
    AtomicBool, AtomicU64, Condvar, Mutex, Ordering, fence, lock, spin_loop, wait_until,
};

/// Flags, idle workers and their beds. `Job` is what an idle worker can be called for directly.
pub(crate) struct Doorbell<Job> {
    ready: Box<[Flag]>,
    /// A bit per sleeping worker. Whoever clears a bit must wake that worker.
    idle: Box<[AtomicU64]>,
    beds: Box<[Bed<Job>]>,
    stopped: AtomicBool,
}

#[repr(align(128))]
struct Flag(AtomicBool);

struct Bed<Job> {
    call: Mutex<Option<Call<Job>>>,
    changed: Condvar,
}

/// Why a worker was woken.
#[derive(Debug)]
pub(crate) enum Call<Job> {
    /// Some stream is worth a look.
    Look,
    /// Help with this.
    Help(Job),
}

impl<Job> Doorbell<Job> {
    pub fn new(workers: usize) -> Self {
        Self::with_streams(workers, MAX_STREAMS as usize)
    }

    fn with_streams(workers: usize, streams: usize) -> Self {
        Self {
            ready: (0..streams).map(|_| Flag(AtomicBool::new(false))).collect(),
            idle: (0..workers.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            beds: (0..workers)
                .map(|_| Bed { call: Mutex::new(None), changed: Condvar::new() })
                .collect(),
            stopped: AtomicBool::new(false),
        }
    }

    /// A stream's queue is worth a look.
    pub fn ring(&self, stream: u32) {
        // Pairs with `take_ready`.
        if self.ready[stream as usize].0.swap(true, Ordering::AcqRel) {
            // Whoever set it wakes a worker, and the worker that takes it sees what came before this.
            return;
        }
        // Orders the flag before the look at the idle workers; see `sleep`.
        fence(Ordering::SeqCst);
        if let Some(worker) = self.claim_idle() {
            self.wake(worker, Call::Look);
        }
    }

    /// Takes a stream whose flag is set, starting at `from`.
    pub fn take_ready(&self, from: usize) -> Option<u32> {
        let streams = self.ready.len();
        (0..streams).map(|step| (from + step) % streams).find_map(|stream| {
            let flag = &self.ready[stream].0;
            // Pairs with every `ring` since it was taken last.
            let taken = flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::AcqRel);
            taken.then_some(stream as u32)
        })
    }

    fn any_ready(&self) -> bool {
        self.ready.iter().any(|flag| flag.0.load(Ordering::Relaxed))
    }

    /// A sleeping worker, which the caller must now wake.
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

    fn wake(&self, worker: usize, call: Call<Job>) {
        let bed = &self.beds[worker];
        *lock(&bed.call) = Some(call);
        bed.changed.notify_one();
    }

    /// Calls an idle worker for a job, if there is one; else gives the job back.
    pub fn call(&self, job: Job) -> Result<(), Job> {
        match self.claim_idle() {
            Some(worker) => {
                self.wake(worker, Call::Help(job));
                Ok(())
            }
            None => Err(job),
        }
    }

    /// Sleeps until there is something to do, but first stays awake for a call as long as `linger`
    /// says so. `None` when the bell was stopped.
    pub fn sleep(&self, worker: usize, linger: impl Fn() -> bool) -> Option<Call<Job>> {
        let (word, bit) = (&self.idle[worker / 64], 1u64 << (worker % 64));
        word.fetch_or(bit, Ordering::AcqRel);
        // Either the look of `ring` or `stop` at the idle workers sees the bit, or the looks below see its flag.
        fence(Ordering::SeqCst);
        let stopped = self.stopped.load(Ordering::Acquire);
        if (stopped || self.any_ready()) && word.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
            return (!stopped).then_some(Call::Look);
        }
        // Whoever clears the bit leaves a call, also for a worker that is awake.
        while word.load(Ordering::Relaxed) & bit != 0 && linger() {
            spin_loop();
        }
        // The bit is set, or somebody cleared it and is about to leave a call.
        let bed = &self.beds[worker];
        let mut call = lock(&bed.call);
        loop {
            if let Some(call) = call.take() {
                let leave = matches!(call, Call::Look) && self.stopped.load(Ordering::Acquire);
                return (!leave).then_some(call);
            }
            (call, _) = wait_until(&bed.changed, call, None);
        }
    }

    /// Tells every worker to stop. Flags that are set stay set.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // Orders the flag before the look at the idle workers; see `sleep`.
        fence(Ordering::SeqCst);
        while let Some(worker) = self.claim_idle() {
            self.wake(worker, Call::Look);
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
        let bell = Doorbell::<()>::new(1);
        bell.ring(5);
        bell.ring(5);
        assert_eq!(bell.take_ready(0), Some(5));
        assert_eq!(bell.take_ready(0), None);
    }

    #[test]
    fn a_job_comes_back_when_nobody_sleeps() {
        assert_eq!(Doorbell::new(2).call(7), Err(7));
    }

    /// A worker goes to sleep; the job that it is then called for reaches it.
    fn reaches(workers: usize, worker: usize, linger: impl Fn() -> bool + Sync) {
        let bell = Doorbell::new(workers);
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| bell.sleep(worker, &linger));
            let mut job = 7;
            while let Err(back) = bell.call(job) {
                job = back;
                std::thread::yield_now();
            }
            assert!(matches!(worker.join().unwrap(), Some(Call::Help(7))));
        });
    }

    #[test]
    fn a_worker_that_lingers_gets_the_job_awake() {
        // Were it to sleep, nobody would have said so.
        reaches(1, 0, || true);
    }

    #[test]
    fn a_sleeping_worker_gets_the_job() {
        reaches(70, 69, || false);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Whatever is rung is seen, by a worker that is awake or falls asleep at that moment.
    #[test]
    fn loom_a_ring_is_never_slept_through() {
        loom::model(|| {
            let bell = Arc::new(Doorbell::<()>::with_streams(1, 2));
            let worker = {
                let bell = Arc::clone(&bell);
                thread::spawn(move || {
                    let mut seen = 0;
                    while seen < 2 {
                        match bell.take_ready(0) {
                            Some(_) => seen += 1,
                            None => assert!(bell.sleep(0, || false).is_some()),
                        }
                    }
                })
            };
            bell.ring(0);
            bell.ring(1);
            worker.join().unwrap();
        });
    }

    /// Whoever takes a flag sees what was done before each ring, also before one that found the flag set.
    #[test]
    fn loom_a_taken_flag_shows_what_was_done_before_the_ring() {
        use loom::sync::atomic::AtomicUsize;
        loom::model(|| {
            let shared = Arc::new((
                Doorbell::<()>::with_streams(1, 1),
                [(); 2].map(|()| AtomicUsize::new(0)),
            ));
            let ringers = [0, 1].map(|ringer| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.1[ringer].store(1, Ordering::Relaxed);
                    shared.0.ring(0);
                })
            });
            let done = || shared.1.iter().map(|done| done.load(Ordering::Relaxed)).sum::<usize>();
            let mut seen = 0;
            while seen < 2 {
                match shared.0.take_ready(0) {
                    Some(_) => {
                        assert!(done() > seen, "a ring without anything behind it");
                        seen = done();
                    }
                    None => thread::yield_now(),
                }
            }
            for ringer in ringers {
                ringer.join().unwrap();
            }
        });
    }

    /// A stop is seen by a worker that falls asleep at that moment.
    #[test]
    fn loom_a_stop_is_never_slept_through() {
        loom::model(|| {
            let bell = Arc::new(Doorbell::<()>::with_streams(1, 1));
            let worker = {
                let bell = Arc::clone(&bell);
                thread::spawn(move || assert!(bell.sleep(0, || false).is_none()))
            };
            bell.stop();
            worker.join().unwrap();
        });
    }

    /// Stopping releases every worker, also one that is called or rung for at that moment.
    #[test]
    fn loom_stop_releases_every_worker() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let bell = Arc::new(Doorbell::<u8>::with_streams(2, 1));
            let workers: Vec<_> = (0..2)
                .map(|worker| {
                    let bell = Arc::clone(&bell);
                    thread::spawn(move || {
                        while !bell.is_stopped() {
                            if bell.take_ready(0).is_none() {
                                bell.sleep(worker, || false);
                            }
                        }
                    })
                })
                .collect();
            bell.ring(0);
            bell.stop();
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }

    /// A job goes to exactly one worker or comes back.
    #[test]
    fn loom_a_job_is_neither_lost_nor_doubled() {
        loom::model(|| {
            let bell = Arc::new(Doorbell::<u8>::with_streams(1, 1));
            let worker = {
                let bell = Arc::clone(&bell);
                thread::spawn(move || {
                    let mut helped = 0;
                    while !bell.is_stopped() {
                        if let Some(Call::Help(job)) = bell.sleep(0, || false) {
                            helped += job;
                        }
                    }
                    helped
                })
            };
            let given = u8::from(bell.call(1).is_ok());
            bell.stop();
            assert_eq!(worker.join().unwrap(), given);
        });
    }

    /// The same for a worker that stays awake for a while.
    #[test]
    fn loom_a_job_reaches_a_worker_that_lingers() {
        loom::model(|| {
            let bell = Arc::new(Doorbell::<u8>::with_streams(1, 1));
            let worker = {
                let bell = Arc::clone(&bell);
                thread::spawn(move || {
                    let mut helped = 0;
                    while !bell.is_stopped() {
                        let patience = std::cell::Cell::new(2);
                        let linger = || patience.replace(patience.get() - 1) > 0;
                        if let Some(Call::Help(job)) = bell.sleep(0, linger) {
                            helped += job;
                        }
                    }
                    helped
                })
            };
            let given = u8::from(bell.call(1).is_ok());
            bell.stop();
            assert_eq!(worker.join().unwrap(), given);
        });
    }
}

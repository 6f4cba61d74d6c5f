//! One thread per device that wakes those who sleep.
//!
//! Threads that have waited for long sleep, and tasks always do; this one polls their queues in
//! turn and takes finished batches off, which wakes threads, and wakes tasks. So a hundred sleepers cost one core,
//! and the driver is not asked. For tasks it also asks now and then whether the hardware is well: threads do that
//! by themselves. Without sleepers it sleeps itself.

use std::sync::OnceLock;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use millstream_core::sync::WatchList;
use millstream_core::sync::schedule::{AtomicBool, Mutex, Ordering, PoisonError};

/// How long it stays awake after the last sleeper, since the next one mostly comes at once.
const LINGER: Duration = Duration::from_micros(50);
/// When nothing has finished for this long, it sleeps between polls: the work is long, so a little more
/// does not show.
const SPIN: Duration = Duration::from_millis(2);
/// How long it then sleeps.
const PARK: Duration = Duration::from_micros(50);
/// When nothing has finished for this long, the hardware is probed, and then again after the same time.
const PROBE: Duration = Duration::from_millis(20);

/// What the watcher does with a queue that somebody sleeps for.
pub(crate) trait Watched: Send + Sync + 'static {
    /// Whether somebody still sleeps for queue `id`.
    fn has_waiters(&self, id: u32) -> bool;
    /// Takes finished batches off and wakes tasks; whether there were any batches.
    fn advance(&self, id: u32) -> bool;
    /// Asks whether the hardware is well, if tasks wait for queue `id`, and releases them if it is not.
    fn probe(&self, id: u32);
}

/// The handle of the watcher.
#[derive(Default)]
pub(crate) struct Watcher {
    /// Queues, by bit, that somebody waits for.
    wanted: WatchList,
    stop: AtomicBool,
    thread: OnceLock<Thread>,
    join: Mutex<Option<JoinHandle<()>>>,
    /// Whether it sleeps for want of sleepers.
    #[cfg(test)]
    asleep: AtomicBool,
}

impl Watcher {
    /// Starts the thread. `state` gives the watched queues and this watcher.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub fn start<W: Watched + AsRef<Watcher>>(state: std::sync::Arc<W>) -> std::io::Result<()> {
        let own = std::sync::Arc::clone(&state);
        let builder = std::thread::Builder::new().name("millstream gpu watcher".into());
        let join = builder.spawn(move || own.as_ref().as_ref().run(&*own))?;
        let watcher: &Watcher = state.as_ref().as_ref();
        let _ = watcher.thread.set(join.thread().clone());
        *watcher.join.lock().unwrap_or_else(PoisonError::into_inner) = Some(join);
        Ok(())
    }

    /// Somebody sleeps for queue `id`. Its count of sleepers is up already.
    pub fn watch(&self, id: u32) {
        if self.wanted.add(id)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
        let join = self.join.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(join) = join {
            // It computes nothing that could panic, and has nothing to report.
            let _ = join.join();
        }
    }

    fn run(&self, queues: &dyn Watched) {
        let mut last = Instant::now();
        let mut probed = last;
        while !self.stop.load(Ordering::Relaxed) {
            let wanted = self.wanted.all();
            let mut advanced = false;
            for id in ids(wanted) {
                advanced |= queues.advance(id);
                self.wanted.remove_unless(id, || queues.has_waiters(id));
            }
            if advanced {
                last = Instant::now();
                continue;
            }
            std::hint::spin_loop();
            let idle = last.elapsed();
            if idle > PROBE && probed.elapsed() > PROBE {
                ids(wanted).for_each(|id| queues.probe(id));
                probed = Instant::now();
            }
            if wanted == 0 && idle > LINGER {
                #[cfg(test)]
                self.asleep.store(true, Ordering::SeqCst);
                std::thread::park();
                #[cfg(test)]
                self.asleep.store(false, Ordering::SeqCst);
                last = Instant::now();
            } else if idle > SPIN {
                std::thread::sleep(PARK);
            }
        }
    }
}

/// The numbers of the bits that are set.
fn ids(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let id = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        Some(id)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Queues {
        watcher: Watcher,
        waiters: AtomicU32,
        advances: AtomicU32,
    }

    impl AsRef<Watcher> for Queues {
        fn as_ref(&self) -> &Watcher {
            &self.watcher
        }
    }

    impl Watched for Queues {
        fn has_waiters(&self, _: u32) -> bool {
            self.waiters.load(Ordering::SeqCst) > 0
        }
        fn advance(&self, id: u32) -> bool {
            assert_eq!(id, 5);
            self.advances.fetch_add(1, Ordering::SeqCst);
            // Wakes its sleeper.
            self.waiters.store(0, Ordering::SeqCst);
            true
        }
        fn probe(&self, _: u32) {}
    }

    /// Waits for a condition; the time only ends a test that would hang.
    fn until(what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !condition() {
            assert!(Instant::now() < deadline, "never: {what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn sleepers_are_served_again_and_again_and_the_thread_ends() {
        let queues = Arc::new(Queues::default());
        Watcher::start(Arc::clone(&queues)).unwrap();
        for round in 0..100 {
            queues.waiters.store(1, Ordering::SeqCst);
            queues.watcher.watch(5);
            until("a sleeper is served", || queues.waiters.load(Ordering::SeqCst) == 0);
            if round % 10 == 0 {
                // The next sleeper finds it asleep, the others mostly awake.
                until("the watcher sleeps", || queues.watcher.asleep.load(Ordering::SeqCst));
            }
        }
        assert!(queues.advances.load(Ordering::SeqCst) >= 100);
        queues.watcher.stop();
    }
}

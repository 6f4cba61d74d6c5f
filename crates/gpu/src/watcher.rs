//! One thread per device that wakes parked threads and tasks.
//!
//! Threads park after they have waited for some time, and tasks always do. The watcher polls their queues in turn and
//! retires finished batches, which wakes them. So a hundred parked threads cost one core, and the driver is not
//! called. For tasks the watcher also asks now and then whether the hardware still works; threads do that themselves.
//! If nothing is parked, the watcher parks too.

use std::sync::OnceLock;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use millstream_core::sync::WatchList;
use millstream_core::sync::schedule::{AtomicBool, Mutex, Ordering, PoisonError};

/// How long it stays awake after the last one was woken, since the next usually comes at once.
const LINGER: Duration = Duration::from_micros(50);
/// If nothing has finished for this long, it sleeps between polls: the work is long, so a small delay does not
/// matter.
const SPIN: Duration = Duration::from_millis(2);
/// How long it then sleeps.
const PARK: Duration = Duration::from_micros(50);
/// When nothing has finished for this long, the hardware is probed, and then again after the same time.
const PROBE: Duration = Duration::from_millis(20);

/// What the watcher does with a queue that threads or tasks wait for.
pub(crate) trait Watched: Send + Sync + 'static {
    /// Whether anything still waits for queue `id`.
    fn has_waiters(&self, id: u32) -> bool;
    /// Retires finished batches and wakes tasks. Returns whether there were any batches.
    fn advance(&self, id: u32) -> bool;
    /// If tasks wait for queue `id`, asks whether the hardware still works, and releases them if it does not.
    fn probe(&self, id: u32);
}

/// The handle of the watcher.
#[derive(Default)]
pub(crate) struct Watcher {
    /// The queues that anything waits for, as bits.
    wanted: WatchList,
    stop: AtomicBool,
    thread: OnceLock<Thread>,
    join: Mutex<Option<JoinHandle<()>>>,
    /// Whether the watcher is parked because nothing waits.
    #[cfg(test)]
    asleep: AtomicBool,
}

impl Watcher {
    /// Starts the thread. `state` has the watched queues and this watcher.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub fn start<W: Watched + AsRef<Watcher>>(state: std::sync::Arc<W>) -> std::io::Result<()> {
        let own = std::sync::Arc::clone(&state);
        let builder = std::thread::Builder::new().name("millstream gpu watcher".into());
        let join = builder.spawn(move || own.as_ref().as_ref().run(&*own))?;
        let watcher: &Watcher = state.as_ref().as_ref();
        let _ = watcher.thread.set(join.thread().clone());
        *watcher.join.lock().unwrap_or_else(PoisonError::into_inner) = Some(join);
        Ok(())
    }

    /// Watches queue `id`. The caller has already counted itself among its waiters.
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
            // The thread does nothing that could panic, and returns nothing.
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
mod tests;

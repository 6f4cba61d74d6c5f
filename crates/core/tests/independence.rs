//! Invariants 2 and 3: what streams have in common, and what happens while a batch is submitted. On a device
//! that is through with a batch at once, so that all time is spent in core.

#![cfg(target_os = "linux")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use common::*;
use millstream_core::{
    Backend, BackendInfo, Batch, Buffer, Device, OpKind, Progress, Queue, QueueContext, Result,
    Segment, Stream,
};

/// A guard against a hang, far above what any machine takes.
const LONG: Duration = Duration::from_secs(20);

/// Is through with a batch when it is submitted, and calls a hook inside every submit.
struct Immediate(Hook);

type Hook = Arc<dyn Fn() + Send + Sync>;

struct ImmediateQueue {
    progress: Arc<Progress>,
    inside: Hook,
}

impl Backend for Immediate {
    fn info(&self) -> BackendInfo {
        BackendInfo {
            name: "immediate".into(),
            description: String::new(),
            memory_bytes: 1 << 30,
            parallelism: 1,
            queue_capacity: 64,
            alignment: 256,
            streams: 32,
            f64: true,
        }
    }

    fn supports(&self, _: OpKind) -> bool {
        true
    }

    fn allocate(&self, bytes: usize) -> Result<Option<Segment>> {
        // Nothing is ever written there.
        Ok(Some(Segment { address: 4096, bytes, host: None, owner: Box::new(()) }))
    }

    fn new_queue(&self, context: QueueContext) -> Result<Arc<dyn Queue>> {
        let inside = Arc::clone(&self.0);
        Ok(Arc::new(ImmediateQueue { progress: context.progress, inside }))
    }
}

impl Queue for ImmediateQueue {
    fn submit(&self, batch: Batch) -> Result<()> {
        (self.inside)();
        let last = batch.last;
        batch.resolve(&self.progress, |_| None);
        self.progress.recycle(batch);
        self.progress.advance(last);
        Ok(())
    }

    fn wait(&self, sequence: u64, deadline: Instant) -> Result<()> {
        self.progress.wait_passed(sequence, Some(deadline));
        Ok(())
    }
}

fn immediate(inside: impl Fn() + Send + Sync + 'static) -> Device {
    Device::with_backend(Box::new(Immediate(Arc::new(inside))), config()).unwrap()
}

/// All that a small call does: memory, Commands with weights and without, a submit, a result.
fn call(stream: &Stream, weights: &Buffer) {
    let (a, b) = (stream.allocate(1024).unwrap(), stream.allocate(1024).unwrap());
    fill(stream, &a).unwrap();
    add(stream, &b, &a, weights).unwrap();
    stream.flush().unwrap();
    copy(stream, &a, &b).unwrap();
    stream.download(whole(&a)).unwrap().read::<f32>().unwrap();
}

/// Stops a thread wherever it is: in the middle of anything, with every lock that it has there.
mod stopping {
    use super::*;

    /// Grows with every stop.
    pub static ROUND: AtomicUsize = AtomicUsize::new(0);
    pub static STOPPED: AtomicUsize = AtomicUsize::new(0);
    pub static RELEASED: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn stop(_: libc::c_int) {
        // SAFETY: the place of the calling thread's own error number.
        let errno = unsafe { &mut *libc::__errno_location() };
        let before = *errno;
        let round = ROUND.load(SeqCst);
        STOPPED.store(round, SeqCst);
        while RELEASED.load(SeqCst) < round {
            let moment = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
            // SAFETY: allowed in a handler; the time lives until it returns.
            unsafe { libc::nanosleep(&moment, std::ptr::null_mut()) };
        }
        *errno = before;
    }

    pub fn install() {
        // SAFETY: all zeros is a valid value; the handler does only what handlers may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = stop as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        }
    }

    /// Stops the thread, which lives until after [`release`].
    pub fn stop_thread(thread: libc::pthread_t) {
        let round = ROUND.fetch_add(1, SeqCst) + 1;
        // SAFETY: the caller says that the thread lives, and its handler is installed.
        assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
        while STOPPED.load(SeqCst) < round && RELEASED.load(SeqCst) < round {
            std::thread::yield_now();
        }
    }

    pub fn release() {
        RELEASED.fetch_max(ROUND.load(SeqCst), SeqCst);
    }
}

/// Invariant 2: no lock is shared between streams on the hot path. A thread is stopped at hundreds of random
/// places of its calls; each time another one makes a whole call on a stream of its own. A lock that both
/// take, wherever it is, would keep it from that.
#[test]
fn invariant_02_a_thread_that_is_stopped_anywhere_disturbs_no_other_stream() {
    const STOPS: usize = 500;
    let device = immediate(|| {});
    // Weights as they are after loading: several streams used them before they were settled.
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let weights = first.allocate(1024).unwrap();
    fill(&first, &weights).unwrap();
    fill(&second, &weights).unwrap();
    weights.settle().unwrap();

    stopping::install();
    let (calls, stops) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (over, stuck) = (AtomicBool::new(false), AtomicBool::new(false));
    let stopped_thread = OnceLock::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            call(&first, &weights);
            // SAFETY: no preconditions.
            stopped_thread.set(unsafe { libc::pthread_self() }).unwrap();
            while !over.load(SeqCst) {
                call(&first, &weights);
                calls.fetch_add(1, SeqCst);
            }
        });
        let other = scope.spawn(|| {
            call(&second, &weights);
            let thread = *stopped_thread.wait();
            let mut random = 1u64;
            while stops.load(SeqCst) < STOPS && !stuck.load(SeqCst) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Somewhere in one of its next calls.
                let wanted = calls.load(SeqCst) + 1 + (random >> 62) as usize;
                while calls.load(SeqCst) < wanted {
                    std::thread::yield_now();
                }
                (0..(random >> 33) % 3000).for_each(|_| std::hint::spin_loop());
                stopping::stop_thread(thread);
                call(&second, &weights);
                stopping::release();
                stops.fetch_add(1, SeqCst);
            }
        });
        let (mut seen, mut since) = (0, Instant::now());
        while !other.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
            let now = stops.load(SeqCst);
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > LONG {
                stuck.store(true, SeqCst);
                stopping::release();
            }
        }
        over.store(true, SeqCst);
    });
    assert!(
        !stuck.into_inner(),
        "stuck at stop {} until the other thread went on",
        stops.into_inner()
    );
}

/// Whether a thread of this process sleeps.
fn sleeps(thread: i32) -> bool {
    let stat =
        std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

/// Invariant 3: what belongs to a submission lives inside one `Queue::submit`, under the lock of its stream.
/// While one thread is in there, whatever else another does with that stream waits.
#[test]
fn invariant_03_nobody_gets_at_a_stream_while_a_batch_is_encoded() {
    #[derive(Default)]
    struct Seen {
        /// Threads in a submit.
        inside: AtomicUsize,
        overlaps: AtomicUsize,
        /// The thread that comes while another is inside; 0 before.
        second: AtomicI32,
        /// Whether that one got through.
        through: AtomicBool,
        waited: AtomicUsize,
        armed: AtomicBool,
    }
    let uses: [fn(&Stream, &Buffer); 4] = [
        |stream, buffer| assert!(fill(stream, buffer).is_ok()),
        |stream, _| stream.flush().unwrap(),
        |stream, _| drop(stream.allocate(64).unwrap()),
        |stream, _| drop(stream.synchronize()),
    ];
    for (index, use_stream) in uses.into_iter().enumerate() {
        let seen = Arc::new(Seen::default());
        let device = immediate({
            let seen = Arc::clone(&seen);
            move || {
                if seen.inside.fetch_add(1, SeqCst) > 0 {
                    seen.overlaps.fetch_add(1, SeqCst);
                }
                if seen.armed.swap(false, SeqCst) {
                    let since = Instant::now();
                    let is_asleep =
                        || Some(seen.second.load(SeqCst)).is_some_and(|id| id != 0 && sleeps(id));
                    while !is_asleep() && !seen.through.load(SeqCst) && since.elapsed() < LONG {
                        std::thread::yield_now();
                    }
                    seen.waited.fetch_add(usize::from(!seen.through.load(SeqCst)), SeqCst);
                }
                seen.inside.fetch_sub(1, SeqCst);
            }
        });
        let stream = Stream::new(&device).unwrap();
        let buffer = stream.allocate(64).unwrap();
        fill(&stream, &buffer).unwrap();
        seen.armed.store(true, SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| stream.flush().unwrap());
            scope.spawn(|| {
                while seen.inside.load(SeqCst) == 0 {
                    std::thread::yield_now();
                }
                // SAFETY: no preconditions.
                seen.second.store(unsafe { libc::gettid() }, SeqCst);
                use_stream(&stream, &buffer);
                seen.through.store(true, SeqCst);
            });
        });
        assert_eq!(seen.overlaps.load(SeqCst), 0, "use {index}: two submits at once");
        assert_eq!(
            seen.waited.load(SeqCst),
            1,
            "use {index} got through while a batch was encoded"
        );
    }
}

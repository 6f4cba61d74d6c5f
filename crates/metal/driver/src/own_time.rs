//! The time that the driver itself takes of a thread, so that what is left of a call is the caller's.
//!
//! Every function that a caller comes in by begins with [`OwnTime::begin`]. What it calls in turn counts once, and the caller's
//! blocks do not count. Nothing is counted before [`start`].

use std::arch::x86_64::_rdtsc;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static WANTED: AtomicBool = AtomicBool::new(false);

/// Ticks of the processor's clock.
#[derive(Clone, Copy)]
struct Counted {
    depth: u32,
    began: u64,
    total: u64,
    /// Times that a caller came in.
    entries: u64,
}

thread_local! {
    static COUNTED: Cell<Counted> = const { Cell::new(Counted { depth: 0, began: 0, total: 0, entries: 0 }) };
}

fn ticks() -> u64 {
    // SAFETY: every processor that this driver runs on has the instruction.
    unsafe { _rdtsc() }
}

/// The driver is at work until this is dropped.
pub(crate) struct OwnTime(bool);

impl OwnTime {
    #[inline]
    pub fn begin() -> Self {
        let wanted = WANTED.load(Ordering::Relaxed);
        if wanted {
            let mut counted = COUNTED.get();
            counted.depth += 1;
            counted.entries += u64::from(counted.depth == 1);
            if counted.depth == 1 {
                counted.began = ticks();
            }
            COUNTED.set(counted);
        }
        Self(wanted)
    }
}

impl Drop for OwnTime {
    #[inline]
    fn drop(&mut self) {
        if self.0 {
            let mut counted = COUNTED.get();
            counted.depth -= 1;
            if counted.depth == 0 {
                counted.total += ticks() - counted.began;
            }
            COUNTED.set(counted);
        }
    }
}

/// Calls a block of the caller's, whose time is not the driver's.
pub(crate) fn of_caller(call: impl FnOnce()) {
    let mut inside = COUNTED.get();
    if inside.depth == 0 {
        return call();
    }
    inside.total += ticks() - inside.began;
    COUNTED.set(Counted { depth: 0, ..inside });
    call();
    let after = COUNTED.get();
    COUNTED.set(Counted { depth: inside.depth, began: ticks(), ..after });
}

/// How the processor's clock goes, and how much of an entry is not in the time that it measures, in nanoseconds.
struct Scale {
    per_tick: f64,
    per_entry: f64,
}

fn scale() -> &'static Scale {
    const ENTRIES: u32 = 200_000;
    static SCALE: OnceLock<Scale> = OnceLock::new();
    SCALE.get_or_init(|| {
        let began = (Instant::now(), ticks());
        let before = COUNTED.get();
        for _ in 0..ENTRIES {
            drop(std::hint::black_box(OwnTime::begin()));
        }
        let nanos = began.0.elapsed().as_secs_f64() * 1e9;
        let (measured, all) = (COUNTED.get().total - before.total, ticks() - began.1);
        COUNTED.set(before);
        let per_tick = nanos / all as f64;
        Scale { per_tick, per_entry: per_tick * (all - measured) as f64 / f64::from(ENTRIES) }
    })
}

/// Counts from here on.
pub fn start() {
    WANTED.store(true, Ordering::Relaxed);
    scale();
}

/// The time that the driver has taken of this thread, what counting takes among it.
pub fn own_time() -> Duration {
    let (counted, scale) = (COUNTED.get(), scale());
    let nanos = counted.total as f64 * scale.per_tick + counted.entries as f64 * scale.per_entry;
    Duration::from_nanos(nanos as u64)
}

//! The time that the driver itself takes of a thread, so that what is left of a call is the caller's.
//!
//! Every function that a caller comes in by begins with [`OwnTime::begin`]. What it calls in turn counts once, and the caller's
//! blocks do not count. What counting itself takes is added: as much of it as the quickest entries take. Nothing is counted before
//! [`start`].

use std::arch::x86_64::_rdtsc;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static WANTED: AtomicBool = AtomicBool::new(false);

/// What a thread has counted, in ticks of the processor's clock.
struct Counted {
    depth: Cell<u32>,
    began: Cell<u64>,
    total: Cell<u64>,
    /// Times that a caller came in.
    entries: Cell<u64>,
}

thread_local! {
    static COUNTED: Counted = const {
        Counted { depth: Cell::new(0), began: Cell::new(0), total: Cell::new(0), entries: Cell::new(0) }
    };
}

fn ticks() -> u64 {
    // SAFETY: every processor that this driver runs on has the instruction.
    unsafe { _rdtsc() }
}

impl Counted {
    fn begin(&self) {
        self.entries.set(self.entries.get() + 1);
        self.began.set(ticks());
    }

    fn end(&self) {
        self.total.set(self.total.get() + ticks() - self.began.get());
    }
}

/// The driver is at work until this is dropped.
pub(crate) struct OwnTime(bool);

impl OwnTime {
    #[inline]
    pub fn begin() -> Self {
        let wanted = WANTED.load(Ordering::Relaxed);
        if wanted {
            COUNTED.with(|counted| {
                let depth = counted.depth.get();
                counted.depth.set(depth + 1);
                if depth == 0 {
                    counted.begin();
                }
            });
        }
        Self(wanted)
    }
}

impl Drop for OwnTime {
    #[inline]
    fn drop(&mut self) {
        if self.0 {
            COUNTED.with(|counted| {
                let depth = counted.depth.get() - 1;
                counted.depth.set(depth);
                if depth == 0 {
                    counted.end();
                }
            });
        }
    }
}

/// Calls a block of the caller's, whose time is not the driver's.
pub(crate) fn of_caller(call: impl FnOnce()) {
    let depth = COUNTED.with(|counted| {
        let depth = counted.depth.replace(0);
        if depth > 0 {
            counted.end();
        }
        depth
    });
    call();
    COUNTED.with(|counted| {
        counted.depth.set(depth);
        if depth > 0 {
            counted.begin();
        }
    });
}

/// How the processor's clock goes, and how much of an entry is not in the time that it measures.
struct Scale {
    began: (Instant, u64),
    ticks_per_entry: f64,
}

fn scale() -> &'static Scale {
    const ENTRIES: u64 = 1000;
    static SCALE: OnceLock<Scale> = OnceLock::new();
    SCALE.get_or_init(|| {
        let began = (Instant::now(), ticks());
        let round = || {
            let (first, before) = (ticks(), own_ticks());
            (0..ENTRIES).for_each(|_| drop(std::hint::black_box(OwnTime::begin())));
            let (all, after) = (ticks() - first, own_ticks());
            all.saturating_sub(after.0 - before.0)
        };
        // A round in which the thread lost its core takes longer.
        let least = (0..200).map(|_| round()).min().unwrap_or(0);
        Scale { began, ticks_per_entry: least as f64 / ENTRIES as f64 }
    })
}

/// Counts from here on.
pub fn start() {
    WANTED.store(true, Ordering::Relaxed);
    scale();
}

/// What the driver has taken of this thread, in ticks of the processor's clock, and in how many entries.
fn own_ticks() -> (u64, u64) {
    COUNTED.with(|counted| (counted.total.get(), counted.entries.get()))
}

/// What the driver takes of this thread while something is called.
pub fn own_time(call: impl FnOnce()) -> Duration {
    let before = own_ticks();
    call();
    let (after, scale) = (own_ticks(), scale());
    let counting = (after.1 - before.1) as f64 * scale.ticks_per_entry;
    let own = (after.0 - before.0) as f64 + counting;
    let (began, first) = scale.began;
    began.elapsed().mul_f64(own / (ticks() - first).max(1) as f64)
}

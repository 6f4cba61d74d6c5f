//! When a thread loses time, and how much.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Counts schedules; 0 before the first, when nobody loses time.
static RUN: AtomicU64 = AtomicU64::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
/// Threads without a name are told apart by the order in which they come.
static NAMELESS: AtomicU64 = AtomicU64::new(0);
static SEEN: Mutex<Vec<Arc<Seen>>> = Mutex::new(Vec::new());

/// Sleeps of one thread in one schedule: enough to meet others, few enough for thousands of seeds.
const SLEEPS: u32 = 24;
const STALLS: usize = 2;

/// A thread, and where it passed a point last.
struct Seen {
    name: String,
    at: AtomicPtr<Location<'static>>,
    points: AtomicU64,
}

/// What a thread does at a point.
#[derive(Clone, Copy)]
enum Loss {
    Nothing,
    Yield,
    Spin(u32),
    Sleep(Duration),
}

/// How one thread behaves in one schedule.
#[derive(Clone, Copy)]
struct Habits {
    run: u64,
    state: u64,
    points: u64,
    /// One point in so many costs something.
    one_in: u64,
    /// Of 16 losses so many are yields, and so many spins; the others are sleeps.
    yields: u64,
    spins: u64,
    sleeps: u32,
    /// Points at which the thread stands still for long.
    stalls: [u64; STALLS],
}

impl Habits {
    const NONE: Self = Self {
        run: 0,
        state: 0,
        points: 0,
        one_in: 1,
        yields: 0,
        spins: 0,
        sleeps: 0,
        stalls: [0; STALLS],
    };

    fn new(run: u64, name: &str) -> Self {
        let seed = SEED.load(Ordering::Relaxed);
        // FNV-1a: the same in every process.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut common = Self { run, state: seed, ..Self::NONE };
        let mut own = Self { run, state: seed ^ hash, ..Self::NONE };
        own.next();
        // Most threads have the pace of the schedule, some their own.
        let pace = if own.below(3) == 0 { &mut own } else { &mut common };
        let (one_in, yields) = (2 << pace.below(9), pace.below(17));
        let spins = pace.below(17 - yields);
        (own.one_in, own.yields, own.spins) = (one_in, yields, spins);
        own.sleeps = SLEEPS;
        for index in 0..STALLS {
            // Early points are as likely as late ones, of which there are many more.
            let octave = 1 << own.below(12);
            let at = octave + own.below(octave);
            own.stalls[index] = if own.below(2) == 0 { at } else { 0 };
        }
        own
    }

    /// The next number, by SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn loss(&mut self) -> Loss {
        self.points += 1;
        if self.stalls.contains(&self.points) {
            return Loss::Sleep(Duration::from_micros(500 + self.below(3500)));
        }
        if self.below(self.one_in) != 0 {
            return Loss::Nothing;
        }
        let kind = self.below(16);
        if kind < self.yields {
            Loss::Yield
        } else if kind < self.yields + self.spins || self.sleeps == 0 {
            Loss::Spin(1 << self.below(12))
        } else {
            self.sleeps -= 1;
            Loss::Sleep(Duration::from_micros(1 + self.below(100)))
        }
    }
}

thread_local! {
    // Without a destructor: threads pass points while their thread-locals are destroyed.
    static HABITS: Cell<Habits> = const { Cell::new(Habits::NONE) };
    static OWN: RefCell<Option<Arc<Seen>>> = const { RefCell::new(None) };
}

pub(super) fn begin(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
    NAMELESS.store(0, Ordering::Relaxed);
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).clear();
    RUN.fetch_add(1, Ordering::Release);
}

#[track_caller]
pub(super) fn point() {
    let run = RUN.load(Ordering::Acquire);
    if run == 0 {
        return;
    }
    let mut habits = HABITS.get();
    if habits.run != run {
        habits = arrive(run);
    }
    let loss = habits.loss();
    HABITS.set(habits);
    let at = std::ptr::from_ref(Location::caller()).cast_mut();
    // Not for a thread that is about to end.
    let _ = OWN.try_with(|own| {
        if let Ok(own) = own.try_borrow()
            && let Some(own) = &*own
        {
            own.at.store(at, Ordering::Relaxed);
            own.points.store(habits.points, Ordering::Relaxed);
        }
    });
    match loss {
        Loss::Nothing => {}
        Loss::Yield => std::thread::yield_now(),
        Loss::Spin(times) => (0..times).for_each(|_| std::hint::spin_loop()),
        Loss::Sleep(time) => std::thread::sleep(time),
    }
}

/// The calling thread passes its first point of a schedule.
fn arrive(run: u64) -> Habits {
    let thread = std::thread::current();
    let number = || NAMELESS.fetch_add(1, Ordering::Relaxed);
    let name = thread.name().map_or_else(|| format!("thread {}", number()), str::to_owned);
    let habits = Habits::new(run, &name);
    let at = AtomicPtr::new(std::ptr::null_mut());
    let seen = Arc::new(Seen { name, at, points: AtomicU64::new(0) });
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&seen));
    let _ = OWN.try_with(|own| own.replace(Some(seen)));
    habits
}

pub(super) fn threads() -> Vec<String> {
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let state = |thread: &Arc<Seen>| {
        // SAFETY: it is null or came from a reference that lives for ever.
        let at = unsafe { thread.at.load(Ordering::Relaxed).as_ref() };
        let at = at.map_or_else(|| "no point".to_owned(), Location::to_string);
        let ended = if Arc::strong_count(thread) == 1 { ", ended" } else { "" };
        format!("{}: {at}, {} points{ended}", thread.name, thread.points.load(Ordering::Relaxed))
    };
    seen.iter().map(state).collect()
}

#[cfg(all(test, not(loom)))]
mod tests;

//! Who may execute.
//!
//! A batch needs a permit, and permits are handed out in order of arrival. Handing one on means to wake a thread, which
//! takes as long as a small model. So a caller that comes straight back keeps its permit for a turn: when it leaves
//! while others wait, the permit stays with its stream, and the next call on that stream takes it again. After a
//! turn the oldest waiter gets it.
//!
//! A caller may not come back. So a permit is only kept for a stream whose last caller came straight back, and if it is not taken
//! soon, whoever leaves next hands it on, or the first in line fetches it.
//!
//! Nobody waits longer than those before it need for their turns and the call that each of them ends with: `MAX_TURN` and a call
//! each, divided by the permits.
//!
//! There may be a spare permit, beyond those of the cores, for the moment in which a thread that was handed a permit wakes up.
//! While somebody stands in line it is one of the pool. Otherwise it lies apart, and only who asks for it has it.

use std::time::{Duration, Instant};

use millstream_core::MAX_STREAMS;
use millstream_core::sync::shim::{AtomicBool, AtomicU64, Ordering};
use millstream_core::sync::{FairPool, Permits};

/// Microseconds for which a caller may go on while others wait.
const MAX_TURN: u64 = 500;

/// A caller that takes longer than this, in microseconds, to call again has not come straight back: waking another thread
/// would have been no slower.
const STRAIGHT: u64 = 50;

/// Microseconds after which a permit that was kept goes to somebody else.
const OVERDUE: u64 = 2 * STRAIGHT;

/// Microseconds from which a call is long: it ends the turn that it began.
const LONG: u64 = MAX_TURN;

/// The longest time that somebody in line waits before it looks for permits that were kept and not taken.
const MAX_PAUSE: Duration = Duration::from_millis(20);

/// Permits of a device. See the module's documentation.
pub(crate) struct Admission {
    permits: FairPool<Permits>,
    cores: usize,
    has_spare: bool,
    /// Whether the spare permit is here: neither in the pool nor in use. Who sets this has given a permit away, and who clears
    /// it has one.
    spare: AtomicBool,
    /// A bit per stream that a permit is kept for. Who sets a bit gives a permit away, and who clears it has one.
    kept: AtomicU64,
    callers: Box<[Caller]>,
    start: Instant,
}

/// What is known of the callers of a stream, in microseconds since the start. Hints: nothing is ordered by them.
#[repr(align(64))]
struct Caller {
    /// When the turn began for which a permit is kept.
    began: AtomicU64,
    /// When the last caller left, plus 1; 0 if none has.
    left: AtomicU64,
    /// Whether the last caller came straight back.
    straight: AtomicBool,
    /// How long its last calls took, on average.
    length: AtomicU64,
}

/// The right to execute, until it is given back.
#[derive(Debug)]
pub(crate) struct Permit {
    /// When the turn began.
    began: u64,
    /// When the call began.
    entered: u64,
}

impl Permit {
    /// For a turn and a call that begin.
    fn new(now: u64) -> Self {
        Permit { began: now, entered: now }
    }
}

impl Admission {
    /// A permit per core, and perhaps a spare one, all of them free.
    pub fn new(cores: usize, has_spare: bool) -> Self {
        let caller = |_| Caller {
            began: AtomicU64::new(0),
            left: AtomicU64::new(0),
            straight: AtomicBool::new(false),
            length: AtomicU64::new(0),
        };
        Self {
            permits: FairPool::permits(cores as u32),
            cores,
            has_spare,
            spare: AtomicBool::new(has_spare),
            kept: AtomicU64::new(0),
            callers: (0..MAX_STREAMS).map(caller).collect(),
            start: Instant::now(),
        }
    }

    /// All permits, in use or not.
    pub fn permits(&self) -> usize {
        self.cores + usize::from(self.has_spare)
    }

    /// Cores that nobody has a permit for.
    pub fn free_cores(&self) -> usize {
        // The spare permit may be in the pool for a moment.
        (self.permits.free_word() as usize).min(self.cores)
    }

    /// Whether somebody stands in line.
    pub fn has_waiters(&self) -> bool {
        self.permits.has_waiters()
    }

    /// How many stand in line.
    #[cfg(all(test, not(loom)))]
    pub fn waiters(&self) -> usize {
        self.permits.waiters()
    }

    /// Whether the last calls of a stream took longer than a turn.
    pub fn is_long(&self, stream: u32) -> bool {
        self.caller(stream).length.load(Ordering::Relaxed) >= LONG
    }

    /// The permit that was kept for a caller of a stream, or one that is free.
    pub fn enter_now(&self, stream: u32) -> Option<Permit> {
        let now = self.now();
        self.expect(stream, now);
        self.take_kept(stream, now).or_else(|| self.take_free(now))
    }

    /// The spare permit, if it is here. It may be had while others stand in line: they get it when it is given back.
    pub fn enter_spare(&self) -> Option<Permit> {
        // Pairs with `put`.
        let found = self.spare.load(Ordering::Relaxed) && self.spare.swap(false, Ordering::Acquire);
        found.then(|| Permit::new(self.now()))
    }

    /// A permit for a caller, in order of arrival. `None` if the deadline passes first.
    pub fn enter(&self, deadline: Instant) -> Option<Permit> {
        self.take(Some(deadline))
    }

    /// A permit for a worker.
    pub fn enter_worker(&self) -> Option<Permit> {
        self.take(None)
    }

    /// A worker runs a batch for the caller of a stream. How long that takes is noted, as for calls.
    pub fn run_for<R>(&self, stream: u32, run: impl FnOnce() -> R) -> R {
        let start = self.now();
        let result = run();
        self.note(stream, self.now() - start);
        result
    }

    /// A caller has what it wanted: its permit is kept for a while if it has to be handed on otherwise and the caller is
    /// expected back, and given back if not.
    pub fn leave(&self, stream: u32, permit: Permit) {
        let now = self.now();
        self.caller(stream).left.store(now + 1, Ordering::Relaxed);
        self.note(stream, now - permit.entered);
        self.hand_on_overdue(now);
        if let Some(permit) = self.keep(stream, permit, now) {
            self.give_back(permit);
        }
    }

    /// Gives a permit to the oldest waiter, or back.
    pub fn give_back(&self, _: Permit) {
        self.put();
    }

    fn caller(&self, stream: u32) -> &Caller {
        &self.callers[stream as usize]
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Gives a permit to the oldest waiter, or back. If nobody waits, the spare permit is taken out of the pool with it.
    fn put(&self) {
        let set_apart = self.has_spare
            && !self.has_waiters()
            && !self.spare.load(Ordering::Relaxed)
            // Pairs with `enter_spare`.
            && !self.spare.swap(true, Ordering::Release);
        if !set_apart {
            self.permits.put(());
        }
    }

    fn take_free(&self, now: u64) -> Option<Permit> {
        self.permits.try_take().map(|()| Permit::new(now))
    }

    fn take(&self, deadline: Option<Instant>) -> Option<Permit> {
        // Who comes behind others has its turn after theirs, and has nothing to look for before.
        let pause = |place: usize, _| {
            let turns = u32::try_from(place + 1).unwrap_or(u32::MAX);
            Duration::from_micros(MAX_TURN).saturating_mul(turns).min(MAX_PAUSE)
        };
        let hand_on = || {
            self.hand_on_overdue(self.now());
            // Set apart by somebody who did not see yet that somebody stands in line.
            if let Some(spare) = self.enter_spare() {
                self.give_back(spare);
            }
        };
        self.permits.take_with(deadline, pause, hand_on)?;
        Some(Permit::new(self.now()))
    }

    /// Notes whether the caller that is here now came straight back.
    fn expect(&self, stream: u32, now: u64) {
        let caller = self.caller(stream);
        let left = caller.left.load(Ordering::Relaxed);
        let straight = left > 0 && now + 1 < left + STRAIGHT;
        // Most callers are like the time before, and a line of memory that is only read is in nobody's way.
        if caller.straight.load(Ordering::Relaxed) != straight {
            caller.straight.store(straight, Ordering::Relaxed);
        }
    }

    /// Notes how many microseconds a call took. A single one that took longer, perhaps because the system kept it from its core,
    /// makes a stream's calls no long ones.
    pub fn note(&self, stream: u32, took: u64) {
        let length = &self.caller(stream).length;
        let before = length.load(Ordering::Relaxed);
        length.store((before * 3 + took.min(2 * LONG)) / 4, Ordering::Relaxed);
    }

    fn take_kept(&self, stream: u32, now: u64) -> Option<Permit> {
        let bit = 1 << stream;
        // Pairs with `set_aside`.
        let found = self.kept.load(Ordering::Relaxed) & bit != 0
            && self.kept.fetch_and(!bit, Ordering::Acquire) & bit != 0;
        let began = || self.caller(stream).began.load(Ordering::Relaxed);
        found.then(|| Permit { began: began(), entered: now })
    }

    /// Keeps a permit for a stream whose caller is expected back before its turn ends; gives it back otherwise.
    fn keep(&self, stream: u32, permit: Permit, now: u64) -> Option<Permit> {
        let caller = self.caller(stream);
        let goes_on = now < permit.began + MAX_TURN
            && caller.straight.load(Ordering::Relaxed)
            && self.permits.has_waiters();
        if goes_on { self.set_aside(stream, permit) } else { Some(permit) }
    }

    /// Leaves a permit to the next caller of a stream. Two threads may leave one stream: the second gets its permit back.
    fn set_aside(&self, stream: u32, permit: Permit) -> Option<Permit> {
        let caller = self.caller(stream);
        caller.began.store(permit.began, Ordering::Relaxed);
        let bit = 1 << stream;
        // Pairs with who clears the bit.
        (self.kept.fetch_or(bit, Ordering::Release) & bit != 0).then_some(permit)
    }

    /// Hands on permits that were kept for callers that have not come back.
    fn hand_on_overdue(&self, now: u64) {
        let mut kept = self.kept.load(Ordering::Relaxed);
        while kept != 0 {
            let bit = kept & kept.wrapping_neg();
            kept &= !bit;
            let left = self.caller(bit.trailing_zeros()).left.load(Ordering::Relaxed);
            // Pairs with `set_aside`.
            if now + 1 >= left + OVERDUE && self.kept.fetch_and(!bit, Ordering::Acquire) & bit != 0
            {
                self.put();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;

//! Joining calls that come at the same time, without a timer and without a thread of its own.
//!
//! A call that finds fewer batches in flight than there may be leads at once. Otherwise it queues. Whoever finishes a batch makes
//! the oldest call of the queue a leader. A leader takes in the whole queue, up to the most that a batch may have, when it begins,
//! and not when it is chosen: waking up takes a while, in which others arrive. So batches grow with the load by themselves,
//! and a lone call never waits.
//!
//! Whoever finishes a batch may also keep its [place](Place) and lead the next one itself. A thread that serves the calls of others does so
//! while calls keep coming: it stays awake on its core, where a leader that is chosen anew has to wake up, often on a core that
//! another leader uses.
//!
//! A call has one row or several, and a batch is bounded by its rows. A call that is too large for what is left of a batch waits, and smaller
//! ones behind it may go first; but the oldest call always goes, so it is passed in no more batches than there are calls before it.
//!
//! With a delay, a leader [gathers](Coalescer::gathering) calls before it begins. Meanwhile nobody else leads, though there may be places: who
//! comes is in that batch.
//!
//! This room knows neither models nor devices: a call is a job, and a leader makes of the jobs of its batch one answer each.
//!
//! The queue is bounded. A call that finds it full gets an error, or waits outside until there is room. Whoever takes calls out of
//! the queue lets in those that wait outside, the oldest first, under the same lock. So nobody has to be woken to come in,
//! there is never room while somebody waits outside, and a call that comes later does not overtake.
//!
//! All that decides whether a call may lead is one word: the number of batches in flight, and a flag that somebody queues. While the
//! flag is set, nobody leads but by being handed a batch, so nobody overtakes and no call is forgotten. The flag changes under
//! the queue's lock only. The word publishes nothing, so its accesses need no order: jobs and answers go through locks.

mod batch;
#[cfg(all(test, loom))]
mod loom_tests;
mod place;
mod queue;
#[cfg(all(test, not(loom)))]
mod tests;
mod ticket;

use std::time::Instant;

use millstream_core::sync::shim::{
    AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock,
};
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::TryLockError;

pub(crate) use batch::{Batch, Next};
pub(crate) use place::Place;
use queue::{Queue, Waiting, answer_late};
pub(crate) use ticket::{Ticket, Turn, cores, keeps_a_core};

const QUEUED: usize = 1 << (usize::BITS - 1);

/// A leader lets others run so many times without anybody coming.
const IDLE_YIELDS: usize = 3;

/// What a call says beside its job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// As so many rows of a batch the call counts.
    pub rows: usize,
    /// Calls of a higher priority go first when not all fit in a batch. The oldest call always goes.
    pub priority: u8,
    /// The call is given up when it has not begun by then.
    pub deadline: Option<Instant>,
    /// If the queue is full, the call waits until there is room in it.
    pub wait_when_full: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self { rows: 1, priority: 0, deadline: None, wait_when_full: false }
    }
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Its deadline passed before it was answered.
    Late,
    /// The call that led its batch panicked.
    Leader,
}

/// What becomes of a call that enters.
pub(crate) enum Entered<J, R> {
    /// It leads a batch.
    Lead(Batch<J, R>),
    /// It waits for its turn.
    Wait(Ticket<J, R>),
    /// The queue is full, and it does not wait for room.
    Full,
}

/// Joins calls. See the module's documentation. Clones are the same.
pub(crate) struct Coalescer<J, R>(Arc<Shared<J, R>>);

impl<J, R> Clone for Coalescer<J, R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Shared<J, R> {
    /// Batches in flight, and [`QUEUED`].
    word: AtomicUsize,
    /// How many batches may be in flight. Read without order: a call that sees an old number leads or queues as it would have.
    in_flight: AtomicUsize,
    /// How many rows a batch may have. Read without order, as `in_flight` is.
    most: AtomicUsize,
    /// Whether leaders gather calls before they begin.
    gathers: bool,
    queue: Mutex<Queue<J, R>>,
    /// How many calls queue. Written with the queue's lock held; without it, a guess.
    queued: AtomicUsize,
    /// Notified of each call while a leader waits for further ones.
    arrived: Condvar,
    /// How many rows were answered last, less those that came since: callers usually come right back. A guess.
    returning: AtomicUsize,
    /// How many calls are computed now. A guess for others, as what queues is.
    computed: AtomicUsize,
    /// How many rows these have.
    computed_rows: AtomicUsize,
}

/// What a call has: where its answer arrives.
struct Entry<J, R> {
    /// How many rows the call has.
    rows: usize,
    slot: Mutex<Slot<J, R>>,
    changed: Condvar,
    /// Whether something was given. For those that look before they park; what was given is read under the lock.
    given: AtomicBool,
    /// Whether nobody has waited for longer, so that it leads next. A guess by which nothing but the way of waiting is decided.
    is_first: AtomicBool,
}

/// Where a call stands.
enum Slot<J, R> {
    /// It waits: parked, with a waker, or about to.
    Waiting {
        parked: bool,
        waker: Option<std::task::Waker>,
    },
    /// It is to lead this batch.
    Lead(Batch<J, R>),
    Answer(Result<R, Lost>),
    /// Nobody waits any more.
    Gone,
}

impl<J, R> Entry<J, R> {
    fn new(rows: usize) -> Arc<Self> {
        let slot = Slot::Waiting { parked: false, waker: None };
        let (given, is_first) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { rows, slot: Mutex::new(slot), changed: Condvar::new(), given, is_first })
    }

    /// Gives a call what it waits for, and wakes it. Gives it back if nobody waits.
    fn give(&self, given: Slot<J, R>) -> Result<(), Slot<J, R>> {
        let mut slot = lock(&self.slot);
        match std::mem::replace(&mut *slot, given) {
            Slot::Waiting { parked, waker } => {
                self.given.store(true, Ordering::Relaxed);
                drop(slot);
                if parked {
                    self.changed.notify_one();
                }
                if let Some(waker) = waker {
                    // A waker is somebody's code: if it panics, that is not to reach the other calls of a batch.
                    let wake = std::panic::AssertUnwindSafe(|| waker.wake());
                    let _ = std::panic::catch_unwind(wake);
                }
                Ok(())
            }
            before => Err(std::mem::replace(&mut *slot, before)),
        }
    }
}

impl<J, R> Coalescer<J, R> {
    /// A coalescer for `in_flight` batches at a time, of at most `most` rows, with room for `capacity` calls that queue.
    pub fn new(in_flight: usize, most: usize, capacity: usize) -> Self {
        Self::build(in_flight, most, capacity, false)
    }

    /// As [`new`](Self::new), where a call that leads [waits for others](Batch::wait_for_others): who comes before it begins does not lead.
    pub fn gathering(in_flight: usize, most: usize, capacity: usize) -> Self {
        Self::build(in_flight, most, capacity, true)
    }

    fn build(in_flight: usize, most: usize, capacity: usize, gathers: bool) -> Self {
        Self(Arc::new(Shared {
            word: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(in_flight.max(1)),
            most: AtomicUsize::new(most.max(1)),
            gathers,
            queue: Mutex::new(Queue::new(capacity.max(1))),
            queued: AtomicUsize::new(0),
            arrived: Condvar::new(),
            returning: AtomicUsize::new(0),
            computed: AtomicUsize::new(0),
            computed_rows: AtomicUsize::new(0),
        }))
    }

    /// Sets how many batches may be in flight. Those that queue notice when a batch ends.
    pub fn set_in_flight(&self, count: usize) {
        self.0.in_flight.store(count.max(1), Ordering::Relaxed);
    }

    /// Sets how many rows a batch may have.
    pub fn set_most(&self, most: usize) {
        self.0.most.store(most.max(1), Ordering::Relaxed);
    }

    /// Whether no batch is in flight and nobody queues.
    pub fn is_idle(&self) -> bool {
        self.0.word.load(Ordering::Relaxed) == 0
    }

    /// Batches in flight at this moment.
    #[cfg(test)]
    pub fn running(&self) -> usize {
        self.0.word.load(Ordering::Relaxed) & !QUEUED
    }

    /// Whether calls queue.
    #[cfg(test)]
    pub fn has_queue(&self) -> bool {
        self.0.word.load(Ordering::Relaxed) & QUEUED != 0
    }

    /// About how many calls queue.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.0.queued.load(Ordering::Relaxed)
    }

    /// About how many calls are there: those that are computed, and those that queue.
    pub fn at_hand(&self) -> usize {
        self.0.computed.load(Ordering::Relaxed) + self.0.queued.load(Ordering::Relaxed)
    }

    /// A call comes in.
    pub fn enter(&self, job: J, terms: Terms) -> Entered<J, R> {
        let shared = &*self.0;
        shared.one_came(terms.rows);
        // Whether somebody gathers is known under the lock only.
        if !shared.gathers && shared.try_lead(false) {
            return Entered::Lead(Batch::alone(self.clone(), job, terms.rows, false));
        }
        // Made before the lock is taken: all callers want it.
        let entry = Entry::new(terms.rows);
        let mut queue = lock_soon(&shared.queue);
        // With the lock held, a batch that ends now either has given its place back, and that is seen here, or it sees the
        // flag and asks for the lock.
        if queue.is_empty() && !queue.gathering && shared.try_lead(true) {
            queue.gathering = shared.gathers;
            drop(queue);
            return Entered::Lead(Batch::alone(self.clone(), job, terms.rows, shared.gathers));
        }
        let is_full = queue.is_full();
        if is_full && !terms.wait_when_full {
            return Entered::Full;
        }
        if queue.gathering {
            shared.word.fetch_or(QUEUED, Ordering::Relaxed);
        }
        queue.push(Waiting { job, terms, entry: Arc::clone(&entry) });
        shared.queued.store(queue.len(), Ordering::Relaxed);
        let (collected, gathered) = (queue.collecting > 0, queue.gathering);
        drop(queue);
        match (collected, gathered) {
            // One that gathers needs several calls, and whoever else waits needs one: both look.
            (true, true) => shared.arrived.notify_all(),
            (true, false) => shared.arrived.notify_one(),
            (false, _) => {}
        }
        Entered::Wait(Ticket::new(self.clone(), entry, is_full))
    }

    /// A batch has ended, or its leader is gone: its place goes to one of those that queue, or is free.
    fn end_batch(&self) {
        while let Some(batch) = self.next_batch() {
            if batch.hand_over().is_ok() && !self.0.try_lead_more() {
                return;
            }
        }
    }

    /// A batch of the oldest call that queues, in the place of one that has ended; the place is free if there is none.
    fn next_batch(&self) -> Option<Batch<J, R>> {
        let shared = &*self.0;
        loop {
            let word = shared.word.load(Ordering::Relaxed);
            let (running, limit) = (word & !QUEUED, shared.in_flight.load(Ordering::Relaxed));
            // Others will take care of the queue if there are more in flight than there may be now.
            if word & QUEUED == 0 || running > limit {
                let next = shared.word.compare_exchange(
                    word,
                    word - 1,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                if next.is_ok() {
                    return None;
                }
                continue;
            }
            let oldest = self.take(|queue| {
                // Who gathers takes them in, and has others lead those that are left.
                if queue.gathering {
                    shared.word.fetch_sub(1, Ordering::Relaxed);
                }
                (!queue.gathering).then(|| queue.take_oldest())
            });
            match oldest {
                Some(Some(call)) => return Some(Batch::queued(self.clone(), call)),
                Some(None) => {}
                None => return None,
            }
        }
    }

    /// Takes calls out of the queue. Those whose deadline has passed get the error.
    fn take<T>(&self, take: impl FnOnce(&mut Queue<J, R>) -> T) -> T {
        let shared = &*self.0;
        let mut queue = lock_soon(&shared.queue);
        let late = queue.take_late();
        let taken = take(&mut queue);
        queue.admit();
        shared.queued.store(queue.len(), Ordering::Relaxed);
        if queue.is_empty() {
            shared.word.fetch_and(!QUEUED, Ordering::Relaxed);
        }
        drop(queue);
        answer_late(late);
        taken
    }
}

/// Locks what is held for moments only, and does not sleep unless that takes longer: to be woken takes many times as long.
fn lock_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(not(loom))]
    for attempt in 0..ATTEMPTS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if attempt % SPINS == SPINS - 1 => {
                std::thread::yield_now();
            }
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    lock(mutex)
}

/// How often a thread tries to get the lock before it sleeps, and how often in a row before it lets others run.
#[cfg(not(loom))]
const ATTEMPTS: usize = 512;
#[cfg(not(loom))]
const SPINS: usize = 32;

impl<J, R> Shared<J, R> {
    /// Takes a place in flight. With the queue's lock held and nobody in the queue, the flag is set if there is none.
    fn try_lead(&self, queues: bool) -> bool {
        let limit = self.in_flight.load(Ordering::Relaxed);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let free = word & QUEUED == 0 && word < limit;
            let next = match (free, queues) {
                (true, _) => word + 1,
                (false, true) => word | QUEUED,
                (false, false) => return false,
            };
            match self.word.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return free,
                Err(current) => word = current,
            }
        }
    }

    /// How many rows a batch takes if so many are at hand: as many as each of the batches that may be in flight would have. Else
    /// the first takes all, and those that come while it runs are few: a row of large and small batches, in which
    /// the small ones cost about as much as larger ones would.
    fn share(&self, at_hand: usize) -> usize {
        let elsewhere =
            self.computed_rows.load(Ordering::Relaxed) + self.returning.load(Ordering::Relaxed);
        (at_hand + elsewhere).div_ceil(self.in_flight.load(Ordering::Relaxed))
    }

    /// Lets other threads run, as long as those that were answered last come back meanwhile.
    fn let_others_come(&self) {
        let mut idle = 0;
        let mut before = self.returning.load(Ordering::Relaxed);
        while before > 0 && idle < IDLE_YIELDS {
            std::thread::yield_now();
            let left = self.returning.load(Ordering::Relaxed);
            idle = if left < before { 0 } else { idle + 1 };
            before = left;
        }
        self.returning.store(0, Ordering::Relaxed);
    }

    /// One of those that were answered last has come back, perhaps, with so many rows.
    fn one_came(&self, rows: usize) {
        let returning = self.returning.load(Ordering::Relaxed);
        if returning > 0 {
            // Two that come at once may count as one.
            self.returning.store(returning.saturating_sub(rows), Ordering::Relaxed);
        }
    }

    /// Takes a further place for those that queue, if more may be in flight than there are.
    fn try_lead_more(&self) -> bool {
        let limit = self.in_flight.load(Ordering::Relaxed);
        let mut word = self.word.load(Ordering::Relaxed);
        while word & QUEUED != 0 && word & !QUEUED < limit {
            let next = word + 1;
            match self.word.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(current) => word = current,
            }
        }
        false
    }
}

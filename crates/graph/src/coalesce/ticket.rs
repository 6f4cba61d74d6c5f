//! A call that waits for its turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use millstream_core::sync::shim::{Ordering, lock, wait_until};

use super::{Batch, Coalescer, Entry, Lost, QUEUED, Slot};

/// What a call has waited for.
pub(crate) enum Turn<J, R> {
    /// It is to lead a batch, in which its own job is.
    Lead(Batch<J, R>),
    /// It was answered.
    Answer(Result<R, Lost>),
}

/// A call in the queue, or in a batch that another leads. Dropping it gives the call up.
pub(crate) struct Ticket<J, R> {
    coalescer: Coalescer<J, R>,
    /// Taken when the call's turn has come.
    entry: Option<Arc<Entry<J, R>>>,
    found_full: bool,
}

impl<J, R> Entry<J, R> {
    /// What has become of a call. `wait` says how it waits if it is not its turn.
    fn turn(
        slot: &mut Slot<J, R>,
        wait: impl FnOnce(bool, Option<Waker>) -> Slot<J, R>,
    ) -> Option<Turn<J, R>> {
        match std::mem::replace(slot, Slot::Gone) {
            Slot::Waiting { parked, waker } => {
                *slot = wait(parked, waker);
                None
            }
            Slot::Lead(batch) => Some(Turn::Lead(batch)),
            Slot::Answer(answer) => Some(Turn::Answer(answer)),
            // Only a ticket that has ended says that nobody waits.
            Slot::Gone => Some(Turn::Answer(Err(Lost::Leader))),
        }
    }
}

/// Looks that the next leader takes between readings of the clock.
const SPINS: usize = 8;

/// With fewer cores than this, all threads let others run while they wait.
const MANY_CORES: usize = 8;

/// The number of cores.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Whether there are so many cores that a thread may keep one for a moment.
pub(crate) fn keeps_a_core() -> bool {
    cores() >= MANY_CORES
}

impl<J, R> Ticket<J, R> {
    pub(super) fn new(
        coalescer: Coalescer<J, R>,
        entry: Arc<Entry<J, R>>,
        found_full: bool,
    ) -> Self {
        Self { coalescer, entry: Some(entry), found_full }
    }

    /// Whether the queue was full when the call came, so that it had to wait for room.
    pub fn found_full(&self) -> bool {
        self.found_full
    }

    /// Waits for the call's turn for a while without sleeping, and lets other threads run meanwhile: where a batch takes about as long as it takes
    /// to wake a thread, its callers need not sleep, and its leader need not wake them.
    pub fn spin(&self, timeout: Duration) {
        let Some(entry) = self.entry.as_ref().filter(|_| !timeout.is_zero()) else { return };
        let begun = Instant::now();
        while !entry.given.load(Ordering::Relaxed) && begun.elapsed() < timeout {
            // Who leads next keeps a core, so that its batch begins at once.
            if entry.is_first.load(Ordering::Relaxed) && keeps_a_core() {
                (0..SPINS).for_each(|_| std::hint::spin_loop());
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Parks until the call's turn has come, or the deadline has passed.
    pub fn wait(mut self, deadline: Option<Instant>) -> Turn<J, R> {
        let Some(entry) = self.entry.take() else { return Turn::Answer(Err(Lost::Leader)) };
        let mut in_time = true;
        let mut slot = lock(&entry.slot);
        loop {
            let parked = |_, waker| Slot::Waiting { parked: true, waker };
            if let Some(turn) = Entry::turn(&mut slot, parked) {
                return turn;
            }
            if !in_time {
                drop(slot);
                self.entry = Some(entry);
                return Turn::Answer(Err(Lost::Late));
            }
            (slot, in_time) = wait_until(&entry.changed, slot, deadline);
        }
    }
}

impl<J, R> Future for Ticket<J, R> {
    type Output = Turn<J, R>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Turn<J, R>> {
        let Some(entry) = &self.entry else { return Poll::Ready(Turn::Answer(Err(Lost::Leader))) };
        let wake = |parked, waker: Option<Waker>| {
            let waker = waker.filter(|waker| waker.will_wake(context.waker()));
            Slot::Waiting { parked, waker: Some(waker.unwrap_or_else(|| context.waker().clone())) }
        };
        let turn = Entry::turn(&mut lock(&entry.slot), wake);
        match turn {
            Some(turn) => {
                self.entry = None;
                Poll::Ready(turn)
            }
            None => Poll::Pending,
        }
    }
}

impl<J, R> Drop for Ticket<J, R> {
    /// A call that is given up leaves the queue. A batch that it was to lead is led by another.
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        let mut before = std::mem::replace(&mut *lock(&entry.slot), Slot::Gone);
        // A batch hands itself over when it is dropped; this call is no longer in the queue then. It was not begun, so a panic
        // that drops this call is of something else.
        if let Slot::Lead(batch) = &mut before {
            batch.set_suspended(true);
        }
        if let Slot::Waiting { .. } = before {
            let shared = &*self.coalescer.0;
            let mut queue = lock(&shared.queue);
            let call = queue.remove(&entry);
            shared.queued.store(queue.len(), Ordering::Relaxed);
            if call.is_some() && queue.is_empty() {
                shared.word.fetch_and(!QUEUED, Ordering::Relaxed);
            }
            drop(queue);
            // A job is dropped with no lock held.
            drop(call);
        }
    }
}

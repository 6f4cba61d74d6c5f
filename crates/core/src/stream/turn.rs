//! Turns on a stream that several threads share.
//!
//! A device can replay a batch that it has seen before. Batches that mix the Commands of several threads
//! rarely repeat, so a batch holds the Commands of one thread, even where threads share a stream. A thread
//! that finds another thread's unsubmitted batch waits: the other thread usually asks for its result soon,
//! and submits the batch itself. After [`TURN_TIMEOUT`] the waiting thread submits it.
//!
//! Waiting costs credits when it was in vain. A stream whose threads record without asking for results runs
//! out of credits: its threads stop waiting and mix their Commands into large batches.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::StreamInner;
use super::inner::Recorder;
use super::submit::{Reason, Submitted};
use crate::Result;

/// How long a thread waits for another thread's batch. Recording a model takes microseconds.
const TURN_TIMEOUT: Duration = Duration::from_micros(500);
/// How many batches of other threads a thread lets go first.
const MAX_TURNS: usize = 32;
/// What a wait that timed out costs. A batch that its own thread submits refills one credit.
const WAIT_COST: u8 = 4;
/// The most credits that a stream can have.
const MAX_CREDITS: u8 = 16;

/// Whose batch is being recorded, and whether it is worth waiting for.
pub(crate) struct Turn {
    /// The thread that began the batch.
    pub thread: usize,
    credits: u8,
}

impl Default for Turn {
    fn default() -> Self {
        Self { thread: 0, credits: MAX_CREDITS }
    }
}

impl Turn {
    /// A batch was submitted by the thread that recorded it, or by whoever waited for its result.
    pub fn refill(&mut self) {
        self.credits = (self.credits + 1).min(MAX_CREDITS);
    }

    fn has_credits(&self) -> bool {
        self.credits >= WAIT_COST
    }

    fn spend(&mut self) {
        self.credits = self.credits.saturating_sub(WAIT_COST);
    }
}

/// A number that no two living threads share, unless they [work as](work_as) the same user.
pub(crate) fn thread_number() -> usize {
    USER.with(|user| match user.get() {
        0 => std::ptr::from_ref(user).addr(),
        user => user,
    })
}

thread_local! {
    /// As whom the thread works; 0 if as itself.
    static USER: Cell<usize> = const { Cell::new(0) };
}

/// Whether the calling thread works as another user than itself.
pub(crate) fn works_as_user() -> bool {
    USER.get() != 0
}

/// Does some work as the user with this number, which is the address of something that lives.
pub(super) fn work_as<R>(user: usize, work: impl FnOnce() -> R) -> R {
    struct Before(usize);
    impl Drop for Before {
        fn drop(&mut self) {
            USER.set(self.0);
        }
    }
    let _before = Before(USER.replace(user));
    work()
}

/// What a thread that records has waited for so far.
#[derive(Default)]
pub(super) struct TurnWait {
    turns: usize,
    /// The first sequence number of the batch that is waited for, and until when.
    waits_for: Option<(u64, Instant)>,
}

impl StreamInner {
    /// Whether the calling thread may add to the batch. If not, the caller must release the lock and lock again.
    pub(super) fn take_turn(
        &'static self,
        recorder: &mut Recorder,
        thread: usize,
        turn_wait: &mut TurnWait,
    ) -> Result<Next> {
        if recorder.batch.is_empty() || recorder.turn.thread == thread {
            return Ok(Next::Record);
        }
        let first = recorder.recorded + 1 - recorder.batch.len() as u64;
        let in_time = match turn_wait.waits_for {
            Some((known, until)) if known == first => {
                let in_time = Instant::now() < until;
                if !in_time {
                    recorder.turn.spend();
                }
                in_time
            }
            _ if !recorder.turn.has_credits() => return Ok(Next::Record),
            _ => {
                turn_wait.turns += 1;
                turn_wait.waits_for = Some((first, Instant::now() + TURN_TIMEOUT));
                turn_wait.turns <= MAX_TURNS
            }
        };
        if in_time {
            return Ok(Next::LetFinish(first));
        }
        match self.submit(recorder, Reason::Turn)? {
            Submitted::All => Ok(Next::Record),
            Submitted::Full { until } => Ok(Next::MakeRoom(until)),
        }
    }

    /// Spins until the batch is submitted, then yields once.
    pub(super) fn let_finish(&self, first: u64) {
        for _ in 0..SPINS {
            if self.submitted() >= first {
                return;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
}

/// How often the stream is polled before the thread yields.
const SPINS: usize = 64;

/// What a thread that records does next.
pub(super) enum Next {
    /// Record: the batch is its own, or may be mixed.
    Record,
    /// Another thread is still recording the batch that begins with this sequence number.
    LetFinish(u64),
    /// The device is full until this sequence number has passed.
    MakeRoom(u64),
}

#[cfg(test)]
mod tests;

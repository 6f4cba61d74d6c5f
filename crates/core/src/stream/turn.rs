//! Turns on a stream that several threads share.
//!
//! A device can replay a batch that it has seen before. Batches that mix the Commands of several threads
//! rarely repeat, so a batch holds the Commands of one thread, even where threads share a stream. A thread
//! that finds another thread's unsubmitted batch waits: the other thread usually asks for its result soon,
//! and submits the batch itself. After [`TURN_TIMEOUT`] the waiting thread submits it.
//!
//! Waiting costs credits when it was in vain. A stream whose threads record without asking for results runs
//! out of credits: its threads stop waiting and mix their Commands into large batches.

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

/// A number that no two living threads share.
pub(crate) fn thread_number() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
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
mod tests {
    use super::*;

    #[test]
    fn threads_have_numbers_of_their_own() {
        let own = thread_number();
        assert_eq!(own, thread_number());
        let other = std::thread::spawn(thread_number).join().unwrap();
        assert_ne!(own, other);
    }

    /// Another thread that comes while this one has `count` batches begun, one after the other.
    #[cfg(not(loom))]
    fn comes_to_batches(count: usize, times_out: bool) -> Vec<bool> {
        let (device, _) = crate::fake::device(crate::Config::default(), 1 << 20, 1).unwrap();
        let stream = crate::Stream::new(&device).unwrap();
        let buffer = stream.allocate(64).unwrap();
        let layout = crate::Layout::contiguous(crate::DType::F32, &[16]).unwrap();
        let mut turn_wait = TurnWait::default();
        let lets_finish = (0..count).map(|_| {
            let fill = crate::Command::fill(buffer.operand(layout), 1.0f32).unwrap();
            stream.record(fill).unwrap();
            let mut recorder = stream.inner.lock();
            let other = thread_number() + 1;
            let mut next = stream.inner.take_turn(&mut recorder, other, &mut turn_wait).unwrap();
            if let (true, Some((_, until))) = (times_out, &mut turn_wait.waits_for) {
                *until = Instant::now();
                next = stream.inner.take_turn(&mut recorder, other, &mut turn_wait).unwrap();
            }
            let submitted = recorder.batch.is_empty();
            drop(recorder);
            // Its own thread submits it otherwise.
            stream.flush().unwrap();
            match next {
                Next::Record => assert!(submitted, "mixed"),
                _ => assert!(!submitted),
            }
            matches!(next, Next::LetFinish(_))
        });
        lets_finish.collect()
    }

    #[cfg(not(loom))]
    #[test]
    fn a_thread_lets_others_go_first_for_a_time_and_a_number_of_batches() {
        let mut lets_finish = vec![true; MAX_TURNS];
        lets_finish.push(false);
        assert_eq!(comes_to_batches(MAX_TURNS + 1, false), lets_finish);
        assert_eq!(comes_to_batches(2, true), [false, false]);
    }

    #[test]
    fn credits_that_are_not_refilled_run_out() {
        let mut turn = Turn::default();
        let mut waits = 0;
        while turn.has_credits() {
            turn.spend();
            waits += 1;
        }
        assert_eq!(waits, MAX_CREDITS / WAIT_COST);
        for _ in 0..WAIT_COST {
            turn.refill();
        }
        assert!(turn.has_credits());
    }
}

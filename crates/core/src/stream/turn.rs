//! Turns on a stream that several threads share.
//!
//! Where a device has fewer streams than there are threads, a batch still holds the Commands of one
//! thread: mixed with those of others, in ever new ways, it would never be one that the device has seen
//! before, and could not be replayed. So a thread that comes while another has Commands that are not
//! submitted lets it finish: that one is about to ask for its result, and hands them over by itself. If it
//! takes its time, its Commands are submitted for it. On a stream where that is the rule, since its threads
//! record without asking for results, nobody waits any more, and batches are mixed: they are large at least.

use std::time::{Duration, Instant};

use super::StreamInner;
use super::inner::Recorder;
use super::submit::{Reason, Submitted};
use crate::Result;

/// How long another thread has for the rest of its batch. Recording a model takes microseconds.
const PATIENCE: Duration = Duration::from_micros(500);
/// How many batches of others a thread lets go first before it takes its turn.
const MOST_TURNS: usize = 32;
/// Courtesy is paid for by batches that their own thread has submitted: one that did not come costs as
/// much as this many.
const COST: u8 = 4;
/// The most that is put by.
const MOST_COURTESY: u8 = 16;

/// Whose batch is being recorded, and whether it is worth waiting for.
pub(crate) struct Turn {
    /// The thread that began the batch.
    pub thread: usize,
    courtesy: u8,
}

impl Default for Turn {
    fn default() -> Self {
        Self { thread: 0, courtesy: MOST_COURTESY }
    }
}

impl Turn {
    /// A batch was submitted by whoever needed it.
    pub fn earn(&mut self) {
        self.courtesy = (self.courtesy + 1).min(MOST_COURTESY);
    }

    fn is_courteous(&self) -> bool {
        self.courtesy >= COST
    }

    fn pay(&mut self) {
        self.courtesy = self.courtesy.saturating_sub(COST);
    }
}

/// A number that no two living threads share.
pub(crate) fn thread_number() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// How long a thread that records has waited for others.
#[derive(Default)]
pub(super) struct Manners {
    turns: usize,
    /// The first sequence number of the batch that is waited for, and until when.
    waits_for: Option<(u64, Instant)>,
}

impl StreamInner {
    /// Whether the calling thread may add to the batch. If not, the lock must be given up and taken anew.
    pub(super) fn take_turn(
        &'static self,
        recorder: &mut Recorder,
        thread: usize,
        manners: &mut Manners,
    ) -> Result<Next> {
        if recorder.batch.is_empty() || recorder.turn.thread == thread {
            return Ok(Next::Record);
        }
        let first = recorder.recorded + 1 - recorder.batch.len() as u64;
        let in_time = match manners.waits_for {
            Some((known, until)) if known == first => {
                let in_time = Instant::now() < until;
                if !in_time {
                    recorder.turn.pay();
                }
                in_time
            }
            _ if !recorder.turn.is_courteous() => return Ok(Next::Record),
            _ => {
                manners.turns += 1;
                manners.waits_for = Some((first, Instant::now() + PATIENCE));
                manners.turns <= MOST_TURNS
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

    /// Gives the core to others until somebody has submitted a batch, or for a moment.
    pub(super) fn let_finish(&self, first: u64) {
        for _ in 0..LOOKS {
            if self.submitted() >= first {
                return;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
}

/// Looks at the stream before the core is given to whoever needs it.
const LOOKS: usize = 64;

/// What a thread that records does next.
pub(super) enum Next {
    /// The batch is its own, or may be mixed.
    Record,
    /// Another thread is still at the batch with that first sequence number.
    LetFinish(u64),
    /// The device is full until that sequence number has passed.
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
    fn comes_to_batches(count: usize, patience_ends: bool) -> Vec<bool> {
        let (device, _) = crate::fake::device(crate::Config::default(), 1 << 20, 1).unwrap();
        let stream = crate::Stream::new(&device).unwrap();
        let buffer = stream.allocate(64).unwrap();
        let layout = crate::Layout::contiguous(crate::DType::F32, &[16]).unwrap();
        let mut manners = Manners::default();
        let lets_finish = (0..count).map(|_| {
            let fill = crate::Command::fill(buffer.operand(layout), 1.0f32).unwrap();
            stream.record(fill).unwrap();
            let mut recorder = stream.inner.lock();
            let other = thread_number() + 1;
            let mut next = stream.inner.take_turn(&mut recorder, other, &mut manners).unwrap();
            if let (true, Some((_, until))) = (patience_ends, &mut manners.waits_for) {
                *until = Instant::now();
                next = stream.inner.take_turn(&mut recorder, other, &mut manners).unwrap();
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
        let mut lets_finish = vec![true; MOST_TURNS];
        lets_finish.push(false);
        assert_eq!(comes_to_batches(MOST_TURNS + 1, false), lets_finish);
        assert_eq!(comes_to_batches(2, true), [false, false]);
    }

    #[test]
    fn courtesy_that_is_not_paid_back_ends() {
        let mut turn = Turn::default();
        let mut waits = 0;
        while turn.is_courteous() {
            turn.pay();
            waits += 1;
        }
        assert_eq!(waits, MOST_COURTESY / COST);
        for _ in 0..COST {
            turn.earn();
        }
        assert!(turn.is_courteous());
    }
}

//! How far a stream has come, and which of its commands failed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::sync::Timeline;
use crate::{BoundCommand, Error, Result};

/// Failed ranges that are kept apart. Beyond this the oldest two become one that also covers what lies
/// between them: a result nobody read in all that time is then reported as failed, never the reverse.
const MAX_FAULTS: usize = 64;

/// Lists of commands that are kept for later batches of a stream, and the most that each has room for.
const SPARES: usize = 2;
const SPARE_COMMANDS: usize = 64;

/// What became of a sequence number.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It has not finished.
    Pending,
    /// It finished.
    Done,
    /// It failed, or will never run because something before it did.
    Failed(Error),
}

/// How far one stream has come. Shared by the stream and its queue.
///
/// # Thread safety
///
/// Any thread may ask and wait. [`advance`](Self::advance) is for the one that executes the stream's
/// work. [`fail`](Self::fail) may come from any thread.
#[derive(Default)]
pub struct Progress {
    completed: Timeline,
    /// Grows with every fault; 0 means that nothing ever failed, and no lock is needed to know it.
    epoch: AtomicU64,
    log: Mutex<FaultLog>,
    /// Lists of commands of batches that are through, empty.
    spares: Mutex<Vec<Vec<BoundCommand>>>,
}

#[derive(Default)]
struct FaultLog {
    ranges: Vec<FailedRange>,
    latest: Option<Error>,
    lost: Option<Error>,
}

struct FailedRange {
    first: u64,
    last: u64,
    error: Error,
}

impl Progress {
    /// Nothing done, nothing failed.
    pub fn new() -> Self {
        Self::default()
    }

    /// The last sequence number that the device is through with. Some up to it may have failed.
    pub fn completed(&self) -> u64 {
        self.completed.value()
    }

    /// The device is through with everything up to `sequence`.
    pub fn advance(&self, sequence: u64) {
        self.completed.advance(sequence);
    }

    /// Everything from `first` to `last` failed and does not run any more.
    pub fn fail(&self, first: u64, last: u64, error: Error) {
        {
            let mut log = self.log();
            log.latest = Some(error.clone());
            log.ranges.push(FailedRange { first, last, error });
            log.ranges.sort_by_key(|range| range.first);
            if log.ranges.len() > MAX_FAULTS {
                let second = log.ranges.remove(1);
                log.ranges[0].last = log.ranges[0].last.max(second.last);
            }
            self.epoch.fetch_add(1, Ordering::Release);
        }
        self.completed.wake();
    }

    /// The device is lost: everything that has not finished never will.
    pub fn lose(&self, error: Error) {
        {
            let mut log = self.log();
            log.latest = Some(error.clone());
            log.lost.get_or_insert(error);
            self.epoch.fetch_add(1, Ordering::Release);
        }
        self.completed.wake();
    }

    /// Takes the commands of a batch that is through, before its progress is told. The list is used again:
    /// it is large, and stays in the caches of the core that works with it.
    pub fn give_back(&self, mut commands: Vec<BoundCommand>) {
        commands.clear();
        if commands.capacity() <= SPARE_COMMANDS {
            let mut spares = self.spares();
            if spares.len() < SPARES {
                spares.push(commands);
            }
        }
    }

    /// An empty list for the commands of a batch, with room for `count` if it is a new one.
    pub(crate) fn spare(&self, count: usize) -> Vec<BoundCommand> {
        let spare = self.spares().pop();
        spare.unwrap_or_else(|| Vec::with_capacity(count))
    }

    fn spares(&self) -> std::sync::MutexGuard<'_, Vec<Vec<BoundCommand>>> {
        self.spares.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A number that changes with every fault. A batch remembers it from the time it was begun, and
    /// fails if it has changed when the batch is submitted: its commands may read what failed.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// What became of a sequence number.
    pub fn outcome(&self, sequence: u64) -> Outcome {
        self.outcome_at(sequence, self.completed())
    }

    fn outcome_at(&self, sequence: u64, completed: u64) -> Outcome {
        if self.epoch() != 0 {
            let log = self.log();
            if let Some(range) =
                log.ranges.iter().find(|range| (range.first..=range.last).contains(&sequence))
            {
                return Outcome::Failed(range.error.clone());
            }
            if let Some(error) = log.lost.as_ref().filter(|_| completed < sequence) {
                return Outcome::Failed(error.clone());
            }
        }
        if completed >= sequence { Outcome::Done } else { Outcome::Pending }
    }

    /// Whether the device will not touch the operands of that sequence number any more.
    pub fn passed(&self, sequence: u64) -> bool {
        self.completed() >= sequence || self.outcome(sequence) != Outcome::Pending
    }

    /// The error of the first failure after `after`, up to and including `last`.
    pub fn first_fault(&self, after: u64, last: u64) -> Option<Error> {
        if self.epoch() == 0 {
            return None;
        }
        let log = self.log();
        log.ranges
            .iter()
            .find(|range| range.last > after && range.first <= last)
            .map(|range| range.error.clone())
            .or_else(|| log.lost.clone())
    }

    /// The error of the latest failure.
    pub fn latest_fault(&self) -> Option<Error> {
        self.log().latest.clone()
    }

    /// Blocks until the device is through with more than `completed`, the outcome of `sequence` is
    /// known, or the deadline has passed. For a caller that may go on with the work itself.
    pub fn wait_for_change(&self, completed: u64, sequence: u64, deadline: Option<Instant>) {
        self.completed.wait(completed + 1, deadline, |now| {
            (now > completed || self.outcome_at(sequence, now) != Outcome::Pending).then_some(())
        });
    }

    /// Blocks until the outcome is known or the deadline has passed.
    pub fn wait(&self, sequence: u64, deadline: Option<Instant>) -> Outcome {
        let known = |completed| match self.outcome_at(sequence, completed) {
            Outcome::Pending => None,
            outcome => Some(outcome),
        };
        self.completed.wait(sequence, deadline, known).unwrap_or(Outcome::Pending)
    }

    fn log(&self) -> std::sync::MutexGuard<'_, FaultLog> {
        self.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Outcome {
    /// `Ok(true)` when done, `Ok(false)` when pending.
    ///
    /// # Errors
    ///
    /// The error of a failed outcome.
    pub fn done(self) -> Result<bool> {
        match self {
            Outcome::Pending => Ok(false),
            Outcome::Done => Ok(true),
            Outcome::Failed(error) => Err(error),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn fault(sequence: u64) -> Error {
        Error::Fault { stream: 0, sequence, command: "fill", message: "planted".into() }
    }

    #[test]
    fn a_fault_covers_its_range_and_nothing_else() {
        let progress = Progress::new();
        progress.fail(3, 4, fault(3));
        progress.advance(6);
        assert_eq!(progress.outcome(2), Outcome::Done);
        assert_eq!(progress.outcome(3), Outcome::Failed(fault(3)));
        assert_eq!(progress.outcome(4), Outcome::Failed(fault(3)));
        assert_eq!(progress.outcome(5), Outcome::Done);
        assert_eq!(progress.outcome(7), Outcome::Pending);
        assert_eq!(progress.first_fault(0, 10), Some(fault(3)));
        assert_eq!(progress.first_fault(4, 10), None);
    }

    #[test]
    fn a_fault_ahead_of_completion_is_known_at_once() {
        let progress = Progress::new();
        progress.fail(5, 6, fault(5));
        assert_eq!(progress.outcome(4), Outcome::Pending);
        assert!(progress.passed(5) && !progress.passed(4));
    }

    #[test]
    fn a_lost_device_fails_what_is_pending_only() {
        let progress = Progress::new();
        progress.advance(2);
        let lost = Error::DeviceLost { device: "fake".into(), reason: "gone".into() };
        progress.lose(lost.clone());
        assert_eq!(progress.outcome(2), Outcome::Done);
        assert_eq!(progress.outcome(3), Outcome::Failed(lost));
    }

    #[test]
    fn the_log_is_bounded_and_errs_on_the_side_of_failure() {
        let progress = Progress::new();
        for index in 0..1000 {
            progress.fail(index * 10 + 1, index * 10 + 2, fault(index * 10 + 1));
        }
        progress.advance(100_000);
        assert_eq!(progress.log().ranges.len(), MAX_FAULTS);
        for index in 0..1000 {
            assert_ne!(progress.outcome(index * 10 + 1), Outcome::Done);
        }
        assert_eq!(progress.outcome(9_999), Outcome::Done);
    }

    #[test]
    fn a_fault_releases_waiters() {
        let progress = Progress::new();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| progress.wait(1, None));
            progress.fail(1, 1, fault(1));
            assert_eq!(waiter.join().unwrap(), Outcome::Failed(fault(1)));
        });
    }
}

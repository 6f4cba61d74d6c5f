//! The progress of a stream, and which of its Commands failed.
//!
//! Progress is one counter, and all that waits and memory depend on. A failure is a property of values (see
//! [`Fault`]). The log here serves queries by sequence number, and `synchronize`, which reports what was not
//! reported yet.

#[cfg(all(test, loom))]
mod loom_tests;
mod spares;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use self::spares::Spares;
use crate::fault::Fault;
use crate::sync::shim::{AtomicBool, Mutex, MutexGuard, Ordering, lock};
use crate::sync::{Ticket, Timeline};
use crate::{Error, Result};

/// How many failed Commands a stream remembers by sequence number. Values stay marked when older ones are
/// forgotten.
const MAX_FAILURES: usize = 256;

/// The outcome of a sequence number.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It has not finished.
    Pending,
    /// It finished.
    Done,
    /// It failed, one of its inputs had failed, or the device is lost.
    Failed(Error),
}

/// The progress of one stream. Shared by the stream and its queue.
///
/// # Thread safety
///
/// Any thread may query and wait. [`advance`](Self::advance) is for the thread that executes the stream's work.
/// [`fail`](Self::fail) may be called by any thread.
#[derive(Default)]
pub struct Progress {
    completed: Timeline,
    /// Whether the log has entries, so that an empty one needs no lock. Set with the log locked, and before the
    /// counter passes what failed, so that a thread that sees the counter sees this.
    has_failures: AtomicBool,
    log: Mutex<Log>,
    spares: Mutex<Spares>,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress")
            .field("completed", &self.completed())
            .field("has_failures", &self.has_failures)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Log {
    /// In the order of sequence numbers.
    failures: VecDeque<Failure>,
    /// Commands that failed by themselves.
    faults: u64,
    lost: Option<Error>,
}

struct Failure {
    first: u64,
    last: u64,
    fault: Fault,
}

impl Progress {
    /// No progress and no failures.
    pub fn new() -> Self {
        Self::default()
    }

    /// The last sequence number that has passed. Some up to it may have failed.
    pub fn completed(&self) -> u64 {
        self.completed.value()
    }

    /// Everything up to `sequence` has passed. The caller then wakes the waiting tasks with no lock held
    /// ([`wake_tasks`](Self::wake_tasks)), or lets another thread do it.
    pub fn advance(&self, sequence: u64) {
        self.completed.advance(sequence);
    }

    /// The Commands from `first` to `last` failed. They may or may not have passed yet.
    pub fn fail(&self, first: u64, last: u64, error: Error) {
        self.log().faults += 1;
        self.note(first, last, &Fault::new(error));
    }

    /// The same for a fault of a value. A Command that failed by itself counts as one more fault.
    pub(crate) fn note_failure(&self, sequence: u64, fault: &Fault, by_itself: bool) {
        self.log().faults += u64::from(by_itself);
        self.note(sequence, sequence, fault);
    }

    fn note(&self, first: u64, last: u64, fault: &Fault) {
        {
            let mut log = self.log();
            let index = log.failures.partition_point(|failure| failure.first <= first);
            log.failures.insert(index, Failure { first, last, fault: fault.clone() });
            if log.failures.len() > MAX_FAILURES {
                log.failures.pop_front();
            }
            self.has_failures.store(true, Ordering::Release);
        }
        self.completed.wake();
    }

    /// The device is lost: all pending work fails. The caller wakes tasks as after [`advance`](Self::advance).
    pub fn lose(&self, error: Error) {
        {
            let mut log = self.log();
            log.lost.get_or_insert(error);
            self.has_failures.store(true, Ordering::Release);
        }
        self.completed.wake();
    }

    /// The outcome of a sequence number.
    pub fn outcome(&self, sequence: u64) -> Outcome {
        self.outcome_at(sequence, self.completed())
    }

    fn outcome_at(&self, sequence: u64, completed: u64) -> Outcome {
        if self.has_failures.load(Ordering::Acquire) {
            let log = self.log();
            if let Some(fault) = log.fault_of(sequence) {
                return Outcome::Failed(fault.error().clone());
            }
            if let Some(error) = log.lost.as_ref().filter(|_| completed < sequence) {
                return Outcome::Failed(error.clone());
            }
        }
        if completed >= sequence { Outcome::Done } else { Outcome::Pending }
    }

    /// Whether the device no longer uses the operands of this sequence number.
    pub fn passed(&self, sequence: u64) -> bool {
        self.passed_at(sequence, self.completed())
    }

    fn passed_at(&self, sequence: u64, completed: u64) -> bool {
        completed >= sequence
            || (self.has_failures.load(Ordering::Acquire) && self.log().lost.is_some())
    }

    /// The error of a lost device.
    pub(crate) fn lost(&self) -> Option<Error> {
        if self.has_failures.load(Ordering::Acquire) { self.log().lost.clone() } else { None }
    }

    /// Reports the fault of a sequence number, if it had one that is still remembered.
    pub(crate) fn report(&self, sequence: u64) -> Option<Error> {
        if !self.has_failures.load(Ordering::Acquire) {
            return None;
        }
        self.log().fault_of(sequence).map(Fault::report)
    }

    /// Reports the first fault up to `last` that was not reported yet.
    pub(crate) fn report_first(&self, last: u64) -> Option<Error> {
        if !self.has_failures.load(Ordering::Acquire) {
            return None;
        }
        let log = self.log();
        let mut recorded = log.failures.iter().take_while(|failure| failure.first <= last);
        recorded.find(|failure| !failure.fault.is_reported()).map(|failure| failure.fault.report())
    }

    /// How many Commands failed by themselves, and the latest fault that is remembered.
    pub(crate) fn faults(&self) -> (u64, Option<Error>) {
        let log = self.log();
        (log.faults, log.failures.back().map(|failure| failure.fault.error().clone()))
    }

    /// Blocks until more than `completed` has passed, or `sequence` has, or the deadline is over. For a caller that
    /// may execute the work itself.
    pub fn wait_for_change(&self, completed: u64, sequence: u64, deadline: Option<Instant>) {
        self.completed.wait(completed + 1, deadline, |now| {
            (now > completed || self.passed_at(sequence, now)).then_some(())
        });
    }

    /// Blocks until a sequence number has passed. False if the deadline comes first.
    pub fn wait_passed(&self, sequence: u64, deadline: Option<Instant>) -> bool {
        let passed = |completed| self.passed_at(sequence, completed).then_some(());
        self.completed.wait(sequence, deadline, passed).is_some()
    }

    /// Whether a sequence number has passed. If not, `waker` is called when it has, or when the device is lost.
    /// Never blocks. The ticket belongs to the task; see [`forget`](Self::forget).
    pub fn poll_passed(&self, sequence: u64, ticket: &mut Ticket, waker: &Waker) -> bool {
        let passed = |completed| self.passed_at(sequence, completed).then_some(());
        self.completed.poll(sequence, ticket, waker, passed).is_some()
    }

    /// A task no longer waits.
    pub fn forget(&self, ticket: &mut Ticket) {
        self.completed.forget(ticket);
    }

    /// Wakes the tasks whose sequence numbers have passed. Calls foreign code: the caller holds no lock. Costs a few
    /// loads if there are none.
    pub fn wake_tasks(&self) {
        match self.lost() {
            None => self.completed.wake_tasks(),
            Some(_) => self.completed.wake_all_tasks(),
        }
    }

    /// Whether a task waits.
    pub fn is_awaited(&self) -> bool {
        self.completed.has_tasks()
    }

    /// Blocks until the outcome is known or the deadline has passed.
    pub fn wait(&self, sequence: u64, deadline: Option<Instant>) -> Outcome {
        let known = |completed| match self.outcome_at(sequence, completed) {
            Outcome::Pending => None,
            outcome => Some(outcome),
        };
        self.completed.wait(sequence, deadline, known).unwrap_or(Outcome::Pending)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }
}

impl Log {
    fn fault_of(&self, sequence: u64) -> Option<&Fault> {
        let index = self.failures.partition_point(|failure| failure.first <= sequence);
        let failure = self.failures.get(index.checked_sub(1)?)?;
        (failure.last >= sequence).then_some(&failure.fault)
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

//! How far a stream has come, and which of its Commands failed.
//!
//! How far is one counter, and it is all that waits and memory look at. What failed is a property of values
//! (see [`Fault`]); the list here is for those who ask by sequence number, and for `synchronize`, which
//! reports what was not reported yet.

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

/// Failed Commands that a stream remembers by sequence number. The oldest are forgotten; their values are
/// not.
const MAX_FAILURES: usize = 256;

/// What became of a sequence number.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It has not finished.
    Pending,
    /// It finished.
    Done,
    /// It failed, or did not run because something that it reads had failed, or the device is lost.
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
    /// Whether the log has anything: without, no lock is needed to know it. Set with the log locked, and
    /// before the counter passes what failed, so that whoever sees the counter sees this.
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
    /// Nothing done, nothing failed.
    pub fn new() -> Self {
        Self::default()
    }

    /// The last sequence number that the device is through with. Some up to it may have failed.
    pub fn completed(&self) -> u64 {
        self.completed.value()
    }

    /// The device is through with everything up to `sequence`. Whoever says so then wakes the tasks that wait
    /// for it, when it holds no lock ([`wake_tasks`](Self::wake_tasks)), or has another thread do that.
    pub fn advance(&self, sequence: u64) {
        self.completed.advance(sequence);
    }

    /// The Commands from `first` to `last` failed. This says nothing about whether the device is through
    /// with them.
    pub fn fail(&self, first: u64, last: u64, error: Error) {
        self.log().faults += 1;
        self.note(first, last, &Fault::new(error));
    }

    /// The same, for a fault that values carry. A Command that failed by itself counts as one more.
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

    /// The device is lost: everything that has not finished never will. Tasks are woken as after
    /// [`advance`](Self::advance).
    pub fn lose(&self, error: Error) {
        {
            let mut log = self.log();
            log.lost.get_or_insert(error);
            self.has_failures.store(true, Ordering::Release);
        }
        self.completed.wake();
    }

    /// What became of a sequence number.
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

    /// Whether the device will not touch the operands of that sequence number any more.
    pub fn passed(&self, sequence: u64) -> bool {
        self.passed_at(sequence, self.completed())
    }

    fn passed_at(&self, sequence: u64, completed: u64) -> bool {
        completed >= sequence
            || (self.has_failures.load(Ordering::Acquire) && self.log().lost.is_some())
    }

    /// Why nothing comes any more, if so.
    pub(crate) fn lost(&self) -> Option<Error> {
        if self.has_failures.load(Ordering::Acquire) { self.log().lost.clone() } else { None }
    }

    /// Tells the fault of a sequence number, if it had one that is still remembered.
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

    /// Blocks until the device is through with more than `completed` or with `sequence`, or the deadline has
    /// passed. For a caller that may go on with the work itself.
    pub fn wait_for_change(&self, completed: u64, sequence: u64, deadline: Option<Instant>) {
        self.completed.wait(completed + 1, deadline, |now| {
            (now > completed || self.passed_at(sequence, now)).then_some(())
        });
    }

    /// Blocks until the device is through with a sequence number. False when the deadline came first.
    pub fn wait_passed(&self, sequence: u64, deadline: Option<Instant>) -> bool {
        let passed = |completed| self.passed_at(sequence, completed).then_some(());
        self.completed.wait(sequence, deadline, passed).is_some()
    }

    /// Whether the device is through with a sequence number. If not, `waker` is called when it is, or when the
    /// device is lost. Never blocks. The ticket is the task's own; see [`forget`](Self::forget).
    pub fn poll_passed(&self, sequence: u64, ticket: &mut Ticket, waker: &Waker) -> bool {
        let passed = |completed| self.passed_at(sequence, completed).then_some(());
        self.completed.poll(sequence, ticket, waker, passed).is_some()
    }

    /// A task does not wait any more.
    pub fn forget(&self, ticket: &mut Ticket) {
        self.completed.forget(ticket);
    }

    /// Wakes the tasks that wait for what has passed. Calls foreign code: the caller holds no lock. Costs a
    /// few loads when there are none.
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

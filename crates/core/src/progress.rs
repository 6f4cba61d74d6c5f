//! How far a stream has come, and which of its Commands failed.
//!
//! How far is one counter, and it is all that waits and memory look at. What failed is a property of values
//! (see [`Fault`]); the list here is for those who ask by sequence number, and for `synchronize`, which
//! reports what was not reported yet.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use crate::backend::{Batch, BatchLists};
use crate::fault::Fault;
use crate::sync::shim::{AtomicBool, Mutex, MutexGuard, Ordering, lock};
use crate::sync::{Ticket, Timeline};
use crate::{Error, Result};

/// Failed Commands that a stream remembers by sequence number. The oldest are forgotten; their values are
/// not.
const MAX_FAILURES: usize = 256;

/// Lists of batches that are kept for later batches of a stream, and the most commands that each has room
/// for.
const SPARES: usize = 2;
const SPARE_COMMANDS: usize = 64;
/// Lists with the Commands of plans that are kept, and how many Commands they have in all.
const SPARE_PLANS: usize = 8;
const SPARE_PLAN_COMMANDS: usize = 4096;

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
    troubled: AtomicBool,
    log: Mutex<Log>,
    spares: Mutex<Spares>,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress")
            .field("completed", &self.completed())
            .field("faults", &self.troubled.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

/// Lists of batches that are through.
#[derive(Default)]
struct Spares {
    empty: Vec<BatchLists>,
    /// With the Commands of a plan in them, the one used last behind.
    plans: Vec<BatchLists>,
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

impl Spares {
    fn keep_empty(&mut self, lists: BatchLists) {
        if self.empty.len() < SPARES {
            self.empty.push(lists);
        }
    }

    fn keep_plan(&mut self, lists: BatchLists) {
        self.plans.push(lists);
        // The one unused for longest goes: its plan may be gone too.
        let commands =
            |plans: &[BatchLists]| plans.iter().map(|plan| plan.commands.capacity()).sum::<usize>();
        while self.plans.len() > SPARE_PLANS || commands(&self.plans) > SPARE_PLAN_COMMANDS {
            self.plans.remove(0);
        }
    }
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
            self.troubled.store(true, Ordering::Release);
        }
        self.completed.wake();
    }

    /// The device is lost: everything that has not finished never will. Tasks are woken as after
    /// [`advance`](Self::advance).
    pub fn lose(&self, error: Error) {
        {
            let mut log = self.log();
            log.lost.get_or_insert(error);
            self.troubled.store(true, Ordering::Release);
        }
        self.completed.wake();
    }

    /// Takes a batch that is through, before its progress is reported. Its lists are used again: they are large,
    /// and stay in the caches of the core that works with them.
    pub fn give_back(&self, batch: Batch) {
        let lists = batch.into_lists();
        if lists.has_plan() {
            self.spares().keep_plan(lists);
        } else if lists.commands.capacity() <= SPARE_COMMANDS {
            self.spares().keep_empty(lists);
        }
    }

    /// Exchanges empty lists for lists of a batch that is through, which begin with the Commands of that part of
    /// a plan. False where there are none.
    pub(crate) fn take_plan(&self, key: (u64, u32), lists: &mut BatchLists) -> bool {
        let mut spares = self.spares();
        let Some(index) = spares.plans.iter().rposition(|plan| plan.plan_key() == Some(key)) else {
            return false;
        };
        let plan = spares.plans.remove(index);
        let empty = std::mem::replace(lists, plan);
        if empty.commands.capacity() > 0 {
            spares.keep_empty(empty);
        }
        true
    }

    /// Gives empty lists the memory of a batch that is through; or, where there is none, room for `count`
    /// commands.
    pub(crate) fn make_room(&self, lists: &mut BatchLists, count: usize) {
        let spare = self.spares().empty.pop();
        match spare {
            Some(spare) => *lists = spare,
            None => lists.make_room(count),
        }
    }

    fn spares(&self) -> MutexGuard<'_, Spares> {
        lock(&self.spares)
    }

    /// What became of a sequence number.
    pub fn outcome(&self, sequence: u64) -> Outcome {
        self.outcome_at(sequence, self.completed())
    }

    fn outcome_at(&self, sequence: u64, completed: u64) -> Outcome {
        if self.troubled.load(Ordering::Acquire) {
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
            || (self.troubled.load(Ordering::Acquire) && self.log().lost.is_some())
    }

    /// Why nothing comes any more, if so.
    pub(crate) fn lost(&self) -> Option<Error> {
        if self.troubled.load(Ordering::Acquire) { self.log().lost.clone() } else { None }
    }

    /// Tells the fault of a sequence number, if it had one that is still remembered.
    pub(crate) fn report(&self, sequence: u64) -> Option<Error> {
        if !self.troubled.load(Ordering::Acquire) {
            return None;
        }
        self.log().fault_of(sequence).map(Fault::report)
    }

    /// Reports the first fault up to `last` that was not reported yet.
    pub(crate) fn report_first(&self, last: u64) -> Option<Error> {
        if !self.troubled.load(Ordering::Acquire) {
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn fault(sequence: u64) -> Error {
        Error::Fault {
            stream: 0,
            sequence,
            command: "fill",
            layer: None,
            message: "planted".into(),
        }
    }

    #[test]
    fn a_fault_covers_its_commands_and_nothing_else() {
        let progress = Progress::new();
        progress.fail(3, 4, fault(3));
        progress.advance(6);
        assert_eq!(progress.outcome(2), Outcome::Done);
        assert_eq!(progress.outcome(3), Outcome::Failed(fault(3)));
        assert_eq!(progress.outcome(4), Outcome::Failed(fault(3)));
        assert_eq!(progress.outcome(5), Outcome::Done);
        assert_eq!(progress.outcome(7), Outcome::Pending);
    }

    #[test]
    fn a_fault_is_known_at_once_but_has_passed_only_when_the_device_is_through() {
        let progress = Progress::new();
        progress.fail(5, 6, fault(5));
        assert_eq!(progress.outcome(4), Outcome::Pending);
        assert_eq!(progress.outcome(5), Outcome::Failed(fault(5)));
        assert!(!progress.passed(5));
        progress.advance(5);
        assert!(progress.passed(5) && !progress.passed(6));
    }

    #[test]
    fn a_lost_device_fails_what_is_pending_only() {
        let progress = Progress::new();
        progress.advance(2);
        let lost = Error::DeviceLost { device: "fake".into(), reason: "gone".into() };
        progress.lose(lost.clone());
        assert_eq!(progress.outcome(2), Outcome::Done);
        assert_eq!(progress.outcome(3), Outcome::Failed(lost));
        assert!(progress.passed(3), "the device touches nothing any more");
    }

    #[test]
    fn each_fault_is_reported_once_by_a_wait_for_everything() {
        let progress = Progress::new();
        for sequence in [2, 5, 7] {
            progress.fail(sequence, sequence, fault(sequence));
        }
        assert_eq!(progress.report(5), Some(fault(5)));
        assert_eq!(progress.report_first(1), None);
        assert_eq!(progress.report_first(6), Some(fault(2)));
        assert_eq!(progress.report_first(6), None, "the one at 5 was reported to its caller");
        assert_eq!(progress.report_first(7), Some(fault(7)));
    }

    #[test]
    fn the_list_is_bounded_and_nothing_good_becomes_a_failure() {
        let progress = Progress::new();
        let kept = MAX_FAILURES as u64;
        for index in 0..1000 {
            progress.fail(index * 10 + 1, index * 10 + 2, fault(index * 10 + 1));
        }
        progress.advance(100_000);
        assert_eq!(progress.log().failures.len(), MAX_FAILURES);
        for index in 0..1000 {
            let failed = progress.outcome(index * 10 + 1) != Outcome::Done;
            assert_eq!(failed, index >= 1000 - kept, "{index}");
            assert_eq!(progress.outcome(index * 10 + 3), Outcome::Done);
        }
        assert_eq!(progress.faults().0, 1000);
    }

    #[test]
    fn lists_of_batches_are_kept_up_to_a_number_and_a_size() {
        let progress = Progress::new();
        let batch = |room| Batch::new(Vec::with_capacity(room), 1, &[]);
        progress.give_back(batch(SPARE_COMMANDS + 1));
        assert_eq!(progress.spares().empty.len(), 0);
        for _ in 0..SPARES + 3 {
            progress.give_back(batch(SPARE_COMMANDS));
        }
        assert_eq!(progress.spares().empty.len(), SPARES);
    }

    #[test]
    fn lists_with_the_commands_of_plans_are_kept_up_to_a_bound() {
        let part = |plan: u64, commands: usize| {
            let mut lists = BatchLists::default();
            lists.commands = Vec::with_capacity(commands);
            lists.set_plan(crate::PlanPart::empty(plan));
            Batch::from_lists(&mut lists, 1, smallvec::SmallVec::new(), false)
        };
        let progress = Progress::new();
        for plan in 0..SPARE_PLANS as u64 + 3 {
            progress.give_back(part(plan, 2));
        }
        assert_eq!(progress.spares().plans.len(), SPARE_PLANS);
        let mut lists = BatchLists::default();
        assert!(!progress.take_plan((0, 0), &mut lists), "the oldest are gone");
        assert!(progress.take_plan((SPARE_PLANS as u64, 0), &mut lists) && lists.has_plan());
        let most = SPARE_PLAN_COMMANDS / 2 + 1;
        progress.give_back(part(100, most));
        progress.give_back(part(101, most));
        let room: usize =
            progress.spares().plans.iter().map(|lists| lists.commands.capacity()).sum();
        assert!(room <= SPARE_PLAN_COMMANDS && room >= most);
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

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    fn lost() -> Error {
        Error::DeviceClosed { device: "planted".into() }
    }

    /// Whoever sees that the device is through with a failed Command sees that it failed.
    #[test]
    fn loom_a_fault_is_seen_by_who_sees_the_progress() {
        loom::model(|| {
            let progress = Arc::new(Progress::new());
            let reader = {
                let progress = Arc::clone(&progress);
                thread::spawn(move || assert_ne!(progress.outcome(1), Outcome::Done))
            };
            progress.note(1, 1, &Fault::new(lost()));
            progress.advance(1);
            reader.join().unwrap();
        });
    }

    /// A loss releases a waiter, whatever the device is doing.
    #[test]
    fn loom_a_loss_releases_a_waiter() {
        loom::model(|| {
            let progress = Arc::new(Progress::new());
            let waiter = {
                let progress = Arc::clone(&progress);
                thread::spawn(move || progress.wait(2, None))
            };
            progress.advance(1);
            progress.lose(lost());
            assert_eq!(waiter.join().unwrap(), Outcome::Failed(lost()));
        });
    }

    /// The same for a task: it sees the loss by itself, or is woken.
    #[test]
    fn loom_a_loss_is_seen_by_a_task_or_wakes_it() {
        use std::task::Wake;

        use loom::sync::atomic::AtomicBool;

        struct Woken(AtomicBool);
        impl Wake for Woken {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.store(true, Ordering::Release);
            }
        }
        loom::model(|| {
            let progress = Arc::new(Progress::new());
            let woken = std::sync::Arc::new(Woken(AtomicBool::new(false)));
            let waker = Waker::from(std::sync::Arc::clone(&woken));
            let task = {
                let progress = Arc::clone(&progress);
                thread::spawn(move || progress.poll_passed(1, &mut Ticket::default(), &waker))
            };
            progress.lose(lost());
            progress.wake_tasks();
            let seen = task.join().unwrap();
            assert!(seen || woken.0.load(Ordering::Acquire));
        });
    }
}

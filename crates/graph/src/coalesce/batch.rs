//! Calls that are computed together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_core::sync::shim::{Ordering, lock, wait_until};

use super::queue::{Room, Waiting};
use super::{Coalescer, Entry, Lost, Place, QUEUED, Slot};

/// The jobs of a batch, in the hands of its leader.
///
/// The leader gives an [answer](Self::answer) to each. If it drops the batch instead, because its future was dropped, another call
/// of the batch leads it again; if it panics, the calls are lost.
pub(crate) struct Batch<J, R> {
    jobs: Vec<J>,
    /// Who gets the answer to each job.
    members: Vec<Member<J, R>>,
    /// How many rows they have.
    rows: usize,
    /// How many of them are counted as being computed, and how many of the rows.
    computed: usize,
    computed_rows: usize,
    /// Whether its leader is a future that waits. If that is dropped while its thread panics, the panic is of something else.
    suspended: bool,
    /// Whether those that come wait for it, until it [takes them in](Self::fill).
    gathers: bool,
    /// Taken when the batch has ended.
    coalescer: Option<Coalescer<J, R>>,
}

/// When the next leader is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Before the calls are answered: the device goes on while they wake up.
    First,
    /// When all are answered: they come back first, and are in the next batch. For a processor that computes itself, where
    /// nothing is gained by beginning earlier.
    Last,
}

/// Who gets the answer to a job.
enum Member<J, R> {
    /// A call that waits for it.
    Waits(Arc<Entry<J, R>>),
    /// The call that leads.
    Leads,
    /// Nobody any more.
    Gone,
}

impl<J, R> Member<J, R> {
    /// The rows of a call that waits.
    fn rows(&self) -> usize {
        match self {
            Member::Waits(entry) => entry.rows,
            Member::Leads | Member::Gone => 0,
        }
    }
}

/// Who is left to be answered, and the place in flight.
type Ended<J, R> = (Vec<Member<J, R>>, Place<J, R>);

impl<J, R> Batch<J, R> {
    fn new(
        coalescer: Coalescer<J, R>,
        jobs: Vec<J>,
        members: Vec<Member<J, R>>,
        rows: usize,
    ) -> Self {
        let (computed, computed_rows) = (0, 0);
        let (suspended, gathers, coalescer) = (false, false, Some(coalescer));
        Self { jobs, members, rows, computed, computed_rows, suspended, gathers, coalescer }
    }

    /// A batch of a call of so many rows that leads it, and that others may wait for.
    pub(super) fn alone(coalescer: Coalescer<J, R>, job: J, rows: usize, gathers: bool) -> Self {
        let mut batch = Self::new(coalescer, vec![job], vec![Member::Leads], rows);
        batch.gathers = gathers;
        batch
    }

    /// A batch of a call that is to lead it.
    pub(super) fn queued(coalescer: Coalescer<J, R>, call: Waiting<J, R>) -> Self {
        let rows = call.entry.rows;
        Self::new(coalescer, vec![call.job], vec![Member::Waits(call.entry)], rows)
    }

    /// The jobs, in the order of their arrival.
    pub fn jobs(&self) -> &[J] {
        &self.jobs
    }

    /// The rows of all jobs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes in the calls that queue, up to the most that a batch may have, and no more than its share where others are in
    /// flight. A leader does this before anything else.
    pub fn fill(&mut self) {
        let Some(coalescer) = self.coalescer.clone() else { return };
        let shared = &*coalescer.0;
        let own = self.rows;
        let most = shared.most.load(Ordering::Relaxed);
        let gathers = std::mem::take(&mut self.gathers);
        // Without the flag nobody queues; who comes now is for the next batch.
        if gathers || (own < most && shared.word.load(Ordering::Relaxed) & QUEUED != 0) {
            let calls = Vec::with_capacity(most.min(shared.queued.load(Ordering::Relaxed) + own));
            let taken = coalescer.take(|queue| {
                // What was gathered is not divided.
                let share = if gathers { most } else { shared.share(queue.rows() + own) };
                queue.gathering &= !gathers;
                queue.take(Room { rows: own, share, most }, calls)
            });
            self.add(taken);
        }
        // Those that are left did not lead, though there may be places.
        if gathers && shared.try_lead_more() {
            coalescer.end_batch();
        }
        (self.computed, self.computed_rows) = (self.jobs.len(), self.rows);
        shared.computed.fetch_add(self.computed, Ordering::Relaxed);
        shared.computed_rows.fetch_add(self.computed_rows, Ordering::Relaxed);
    }

    /// Its calls are no longer computed.
    fn uncount(&self, coalescer: &Coalescer<J, R>) {
        coalescer.0.computed.fetch_sub(self.computed, Ordering::Relaxed);
        coalescer.0.computed_rows.fetch_sub(self.computed_rows, Ordering::Relaxed);
    }

    fn add(&mut self, calls: Vec<Waiting<J, R>>) {
        self.jobs.reserve(calls.len());
        self.members.reserve(calls.len());
        for call in calls {
            call.entry.is_first.store(false, Ordering::Relaxed);
            self.rows += call.entry.rows;
            self.jobs.push(call.job);
            self.members.push(Member::Waits(call.entry));
        }
    }

    /// Says whether the leader is a future that waits.
    pub fn set_suspended(&mut self, suspended: bool) {
        self.suspended = suspended;
    }

    /// Lets other threads run first, as long as those that were answered last come back meanwhile: on a processor that computes
    /// itself they need it to come back at all. If nobody else wants to run, this costs a microsecond.
    pub fn let_others_come(&self) {
        if let Some(coalescer) = &self.coalescer {
            coalescer.0.let_others_come();
        }
    }

    /// Waits until the batch would be full, the time has come, or a call that came meanwhile has a deadline so soon. Not if another batch
    /// gathers calls: then those of this one have waited for a batch before.
    pub fn wait_for_others(&mut self, until: Instant, before_deadline: Duration) {
        let Some(coalescer) = &self.coalescer else { return };
        let shared = &*coalescer.0;
        let most = shared.most.load(Ordering::Relaxed);
        let mut queue = lock(&shared.queue);
        if queue.gathering && !self.gathers {
            return;
        }
        (queue.gathering, self.gathers) = (true, true);
        queue.collecting += 1;
        let mut in_time = true;
        while in_time && queue.rows() + self.rows < most {
            let latest = |deadline: Instant| deadline.checked_sub(before_deadline);
            let deadline = queue.first_deadline().map(|at| latest(at).unwrap_or(at));
            let until = deadline.map_or(until, |at| at.min(until));
            (queue, in_time) = wait_until(&shared.arrived, queue, Some(until));
        }
        queue.collecting -= 1;
    }

    /// Gives the batch to one of its calls, which leads it then. An error if all of them are gone.
    pub(super) fn hand_over(mut self) -> Result<(), ()> {
        for at in 0..self.members.len() {
            let Member::Waits(entry) = std::mem::replace(&mut self.members[at], Member::Leads)
            else {
                self.members[at] = Member::Gone;
                continue;
            };
            match entry.give(Slot::Lead(self)) {
                Ok(()) => return Ok(()),
                // This call is gone; its job is computed with the others, for nobody.
                Err(Slot::Lead(batch)) => {
                    self = batch;
                    self.members[at] = Member::Gone;
                }
                Err(_) => return Err(()),
            }
        }
        self.coalescer = None;
        Err(())
    }

    /// Answers every call, and gives the leader its own answer. `next` says when the next leader is chosen.
    pub fn answer(self, answers: impl IntoIterator<Item = R>, next: Next) -> Option<R> {
        match next {
            Next::First => {
                let (members, place) = self.end()?;
                drop(place);
                give(members, answers)
            }
            // The place is dropped when all are answered.
            Next::Last => self.answer_and_keep(answers)?.0,
        }
    }

    /// Answers every call. With the leader's own answer, if one of them leads, it gives the place in flight: for the next batch.
    pub fn answer_and_keep(
        self,
        answers: impl IntoIterator<Item = R>,
    ) -> Option<(Option<R>, Place<J, R>)> {
        let (members, place) = self.end()?;
        Some((give(members, answers), place))
    }

    /// Who is to be answered, and the place in flight.
    fn end(mut self) -> Option<Ended<J, R>> {
        let coalescer = self.coalescer.take()?;
        let members = std::mem::take(&mut self.members);
        self.uncount(&coalescer);
        coalescer.0.returning.store(self.rows, Ordering::Relaxed);
        Some((members, Place::of(coalescer)))
    }
}

/// Answers calls, and gives the leader its own answer.
fn give<J, R>(members: Vec<Member<J, R>>, answers: impl IntoIterator<Item = R>) -> Option<R> {
    let mut own = None;
    for (member, answer) in members.into_iter().zip(answers) {
        match member {
            // Who is gone by now needs no answer.
            Member::Waits(entry) => drop(entry.give(Slot::Answer(Ok(answer)))),
            Member::Leads => own = Some(answer),
            Member::Gone => {}
        }
    }
    own
}

impl<J, R> Drop for Batch<J, R> {
    fn drop(&mut self) {
        let Some(coalescer) = self.coalescer.take() else { return };
        self.uncount(&coalescer);
        if self.gathers {
            lock(&coalescer.0.queue).gathering = false;
        }
        let members = std::mem::take(&mut self.members);
        let jobs = std::mem::take(&mut self.jobs);
        let waits = |(_, member): &(J, Member<J, R>)| matches!(member, Member::Waits(_));
        let (jobs, members): (Vec<J>, Vec<_>) = jobs.into_iter().zip(members).filter(waits).unzip();
        if std::thread::panicking() && !self.suspended {
            for member in members {
                if let Member::Waits(entry) = member {
                    let _ = entry.give(Slot::Answer(Err(Lost::Leader)));
                }
            }
            coalescer.end_batch();
            return;
        }
        // The leader went away: the others are led by one of them.
        let rows = members.iter().map(Member::rows).sum();
        let rest = Batch::new(coalescer.clone(), jobs, members, rows);
        if rest.hand_over().is_err() {
            coalescer.end_batch();
        }
    }
}

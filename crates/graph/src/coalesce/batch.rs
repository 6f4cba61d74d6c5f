//! Calls that are computed together.

use std::sync::Arc;
use std::time::Instant;

use millstream_core::sync::shim::{Ordering, lock, wait_until};

use super::queue::Waiting;
use super::{Coalescer, Entry, Lost, Place, QUEUED, Slot};

/// The jobs of a batch, in the hands of its leader.
///
/// The leader gives an [answer](Self::answer) to each. If it drops the batch instead, because its future was dropped, another call
/// of the batch leads it again; if it panics, the calls are lost.
pub(crate) struct Batch<J, R> {
    jobs: Vec<J>,
    /// Who gets the answer to each job.
    members: Vec<Member<J, R>>,
    /// How many of them are counted as being computed.
    computed: usize,
    /// Whether its leader is a future that waits. If that is dropped while its thread panics, the panic is of something else.
    suspended: bool,
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

/// Who is left to be answered, and the place in flight.
type Ended<J, R> = (Vec<Member<J, R>>, Place<J, R>);

impl<J, R> Batch<J, R> {
    pub(super) fn alone(coalescer: Coalescer<J, R>, job: J) -> Self {
        let members = vec![Member::Leads];
        Self::of(vec![job], members, coalescer)
    }

    fn of(jobs: Vec<J>, members: Vec<Member<J, R>>, coalescer: Coalescer<J, R>) -> Self {
        Self { jobs, members, computed: 0, suspended: false, coalescer: Some(coalescer) }
    }

    /// A batch of a call that is to lead it.
    pub(super) fn queued(coalescer: Coalescer<J, R>, call: Waiting<J, R>) -> Self {
        let members = vec![Member::Waits(call.entry)];
        Self::of(vec![call.job], members, coalescer)
    }

    /// The jobs, in the order of their arrival.
    pub fn jobs(&self) -> &[J] {
        &self.jobs
    }

    /// Takes in the calls that queue, up to the most that a batch may have, and no more than its share where others are in
    /// flight. A leader does this before anything else.
    pub fn fill(&mut self) {
        let Some(coalescer) = self.coalescer.clone() else { return };
        let shared = &*coalescer.0;
        let own = self.jobs.len();
        let most = shared.most.load(Ordering::Relaxed);
        // Without the flag nobody queues; who comes now is for the next batch.
        if own < most && shared.word.load(Ordering::Relaxed) & QUEUED != 0 {
            let room = Vec::with_capacity(most.min(shared.queued.load(Ordering::Relaxed) + own));
            let taken = coalescer.take(|queue| {
                let share = shared.share(queue.len() + own);
                queue.take(most.min(share).saturating_sub(own), room)
            });
            self.add(taken);
        }
        self.computed = self.jobs.len();
        shared.computed.fetch_add(self.computed, Ordering::Relaxed);
    }

    fn add(&mut self, calls: Vec<Waiting<J, R>>) {
        self.jobs.reserve(calls.len());
        self.members.reserve(calls.len());
        for call in calls {
            call.entry.is_first.store(false, Ordering::Relaxed);
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

    /// Waits until the batch would be full or the time has come.
    pub fn wait_for_others(&self, until: Instant) {
        let Some(coalescer) = &self.coalescer else { return };
        let shared = &*coalescer.0;
        let most = shared.most.load(Ordering::Relaxed);
        let mut queue = lock(&shared.queue);
        queue.collecting += 1;
        let mut in_time = true;
        while in_time && queue.len() + self.jobs.len() < most {
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
        coalescer.0.computed.fetch_sub(self.computed, Ordering::Relaxed);
        coalescer.0.returning.store(members.len(), Ordering::Relaxed);
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
        coalescer.0.computed.fetch_sub(self.computed, Ordering::Relaxed);
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
        let rest = Batch::of(jobs, members, coalescer.clone());
        if rest.hand_over().is_err() {
            coalescer.end_batch();
        }
    }
}

//! Calls that are computed together.

use std::sync::Arc;
use std::time::Instant;

use millstream_core::sync::shim::{Ordering, lock, wait_until};

use super::queue::Waiting;
use super::{Coalescer, Entry, Lost, QUEUED, Slot};

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

/// A leader lets others run so many times without anybody coming.
const IDLE_YIELDS: usize = 3;

/// Who gets the answer to a job.
enum Member<J, R> {
    /// A call that waits for it.
    Waits(Arc<Entry<J, R>>),
    /// The call that leads.
    Leads,
    /// Nobody any more.
    Gone,
}

impl<J, R> Batch<J, R> {
    pub(super) fn alone(coalescer: Coalescer<J, R>, job: J) -> Self {
        let members = vec![Member::Leads];
        Self { jobs: vec![job], members, computed: 0, coalescer: Some(coalescer) }
    }

    /// A batch of a call that is to lead it.
    pub(super) fn queued(coalescer: Coalescer<J, R>, call: Waiting<J, R>) -> Self {
        let members = vec![Member::Waits(call.entry)];
        Self { jobs: vec![call.job], members, computed: 0, coalescer: Some(coalescer) }
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
            let taken = coalescer.take(|queue| {
                let share = shared.share(queue.len() + own);
                queue.take(most.min(share).saturating_sub(own))
            });
            self.add(taken);
        }
        self.computed = self.jobs.len();
        shared.computed.fetch_add(self.computed, Ordering::Relaxed);
    }

    fn add(&mut self, calls: Vec<Waiting<J, R>>) {
        for call in calls {
            self.jobs.push(call.job);
            self.members.push(Member::Waits(call.entry));
        }
    }

    /// Lets other threads run first, as long as those that were answered last come back meanwhile: on a processor that computes
    /// itself they need it to come back at all. If nobody else wants to run, this costs a microsecond.
    pub fn let_others_come(&self) {
        let Some(coalescer) = &self.coalescer else { return };
        let shared = &*coalescer.0;
        let mut idle = 0;
        let mut before = shared.returning.load(Ordering::Relaxed);
        while before > 0 && idle < IDLE_YIELDS {
            std::thread::yield_now();
            let left = shared.returning.load(Ordering::Relaxed);
            idle = if left < before { 0 } else { idle + 1 };
            before = left;
        }
        shared.returning.store(0, Ordering::Relaxed);
    }

    /// Waits until the batch would be full or the time has come.
    pub fn wait_for_others(&self, until: Instant) {
        let Some(coalescer) = &self.coalescer else { return };
        let shared = &*coalescer.0;
        let most = shared.most.load(Ordering::Relaxed);
        let mut queue = lock(&shared.queue);
        queue.collects = true;
        let mut in_time = true;
        while in_time && queue.len() + self.jobs.len() < most {
            (queue, in_time) = wait_until(&shared.arrived, queue, Some(until));
        }
        queue.collects = false;
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
    pub fn answer(mut self, answers: impl IntoIterator<Item = R>, next: Next) -> Option<R> {
        let coalescer = self.coalescer.take()?;
        let members = std::mem::take(&mut self.members);
        coalescer.0.computed.fetch_sub(self.computed, Ordering::Relaxed);
        coalescer.0.returning.store(members.len(), Ordering::Relaxed);
        if next == Next::First {
            coalescer.end_batch();
        }
        let mut own = None;
        for (member, answer) in members.into_iter().zip(answers) {
            match member {
                // Who is gone by now needs no answer.
                Member::Waits(entry) => drop(entry.give(Slot::Answer(Ok(answer)))),
                Member::Leads => own = Some(answer),
                Member::Gone => {}
            }
        }
        if next == Next::Last {
            coalescer.end_batch();
        }
        own
    }
}

impl<J, R> Drop for Batch<J, R> {
    fn drop(&mut self) {
        let Some(coalescer) = self.coalescer.take() else { return };
        coalescer.0.computed.fetch_sub(self.computed, Ordering::Relaxed);
        let members = std::mem::take(&mut self.members);
        let jobs = std::mem::take(&mut self.jobs);
        let waits = |(_, member): &(J, Member<J, R>)| matches!(member, Member::Waits(_));
        let (jobs, members): (Vec<J>, Vec<_>) = jobs.into_iter().zip(members).filter(waits).unzip();
        if std::thread::panicking() {
            for member in members {
                if let Member::Waits(entry) = member {
                    let _ = entry.give(Slot::Answer(Err(Lost::Leader)));
                }
            }
            coalescer.end_batch();
            return;
        }
        // The leader went away: the others are led by one of them.
        let rest = Batch { jobs, members, computed: 0, coalescer: Some(coalescer.clone()) };
        if rest.hand_over().is_err() {
            coalescer.end_batch();
        }
    }
}

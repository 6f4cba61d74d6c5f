//! Calls that are computed together.

use std::sync::Arc;
use std::time::Instant;

use millstream_core::sync::shim::{Ordering, lock, wait_until};

use super::queue::{Waiting, answer_late};
use super::{Coalescer, Entry, Lost, QUEUED, Slot};

/// The jobs of a batch, in the hands of its leader.
///
/// The leader gives an [answer](Self::answer) to each. If it drops the batch instead, because its future was dropped, another call
/// of the batch leads it again; if it panics, the calls are lost.
pub(crate) struct Batch<J, R> {
    jobs: Vec<J>,
    /// Who gets the answer to each job.
    members: Vec<Member<J, R>>,
    /// Taken when the batch has ended.
    coalescer: Option<Coalescer<J, R>>,
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

impl<J, R> Batch<J, R> {
    pub(super) fn alone(coalescer: Coalescer<J, R>, job: J) -> Self {
        Self { jobs: vec![job], members: vec![Member::Leads], coalescer: Some(coalescer) }
    }

    /// A batch that nobody leads yet, if there are calls.
    pub(super) fn queued(coalescer: Coalescer<J, R>, calls: Vec<Waiting<J, R>>) -> Option<Self> {
        if calls.is_empty() {
            return None;
        }
        let (mut jobs, mut members) = (Vec::with_capacity(calls.len()), Vec::with_capacity(calls.len()));
        for call in calls {
            jobs.push(call.job);
            members.push(Member::Waits(call.entry));
        }
        Some(Self { jobs, members, coalescer: Some(coalescer) })
    }

    /// The jobs, in the order of their arrival.
    pub fn jobs(&self) -> &[J] {
        &self.jobs
    }

    /// Waits until the batch is full or the time has come, and takes in those that have arrived.
    pub fn gather(&mut self, most: usize, until: Instant) {
        let Some(coalescer) = &self.coalescer else { return };
        let shared = &*coalescer.0;
        let mut queue = lock(&shared.queue);
        queue.collects = true;
        let mut in_time = true;
        while in_time && queue.len() + self.jobs.len() < most {
            (queue, in_time) = wait_until(&shared.arrived, queue, Some(until));
        }
        queue.collects = false;
        let room = most.saturating_sub(self.jobs.len());
        let late = queue.take_late(Instant::now());
        let taken = if room > 0 { queue.take(room) } else { Vec::new() };
        if queue.is_empty() {
            shared.word.fetch_and(!QUEUED, Ordering::Relaxed);
        }
        drop(queue);
        answer_late(late);
        for call in taken {
            self.jobs.push(call.job);
            self.members.push(Member::Waits(call.entry));
        }
    }

    /// Gives the batch to one of its calls, which leads it then. An error if all of them are gone.
    pub(super) fn hand_over(mut self) -> Result<(), ()> {
        for at in 0..self.members.len() {
            let Member::Waits(entry) = std::mem::replace(&mut self.members[at], Member::Leads) else {
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

    /// Answers every call, and gives the leader its own answer. The next batch is handed over before anybody is woken, so
    /// that the device does not wait for that.
    pub fn answer(mut self, answers: impl IntoIterator<Item = R>) -> Option<R> {
        let coalescer = self.coalescer.take();
        if let Some(coalescer) = &coalescer {
            coalescer.end_batch();
        }
        let mut own = None;
        for (member, answer) in std::mem::take(&mut self.members).into_iter().zip(answers) {
            match member {
                // Who is gone by now needs no answer.
                Member::Waits(entry) => drop(entry.give(Slot::Answer(Ok(answer)))),
                Member::Leads => own = Some(answer),
                Member::Gone => {}
            }
        }
        own
    }
}

impl<J, R> Drop for Batch<J, R> {
    fn drop(&mut self) {
        let Some(coalescer) = self.coalescer.take() else { return };
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
        let rest = Batch { jobs, members, coalescer: Some(coalescer.clone()) };
        if rest.hand_over().is_err() {
            coalescer.end_batch();
        }
    }
}

//! The calls that wait for a batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::{Entry, Lost, Slot, Terms};

/// A call that waits.
pub(super) struct Waiting<J, R> {
    pub job: J,
    pub terms: Terms,
    pub entry: Arc<Entry<J, R>>,
}

/// The calls that wait, the oldest first.
pub(super) struct Queue<J, R> {
    calls: VecDeque<Waiting<J, R>>,
    /// How many there may be.
    capacity: usize,
    /// Calls that wait for room, the oldest first. There are none while there is room.
    outside: VecDeque<Waiting<J, R>>,
    /// Whether a leader waits for further calls.
    pub collects: bool,
}

/// Tells calls that their deadline has passed. No lock may be held.
pub(super) fn answer_late<J, R>(late: Vec<Waiting<J, R>>) {
    for call in late {
        // Who is gone already needs no answer.
        let _ = call.entry.give(Slot::Answer(Err(Lost::Late)));
    }
}

impl<J, R> Queue<J, R> {
    pub fn new(capacity: usize) -> Self {
        Self { calls: VecDeque::new(), capacity, outside: VecDeque::new(), collects: false }
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.calls.len() >= self.capacity
    }

    /// Adds a call: outside if there is no room.
    pub fn push(&mut self, call: Waiting<J, R>) {
        let list = if self.is_full() { &mut self.outside } else { &mut self.calls };
        list.push_back(call);
    }

    /// Lets those in that wait for room, as far as there is some. Whoever has taken calls out does this before the lock is released.
    pub fn admit(&mut self) {
        while !self.outside.is_empty() && !self.is_full() {
            self.calls.extend(self.outside.pop_front());
        }
    }

    /// Takes a call out that is given up. There is none if it is in a batch already.
    pub fn remove(&mut self, entry: &Arc<Entry<J, R>>) -> Option<Waiting<J, R>> {
        let remove = |list: &mut VecDeque<Waiting<J, R>>| {
            let at = list.iter().position(|call| Arc::ptr_eq(&call.entry, entry))?;
            list.remove(at)
        };
        let call = remove(&mut self.calls).or_else(|| remove(&mut self.outside));
        self.admit();
        call
    }

    /// Takes out the calls whose deadline has passed. They are answered when the lock is released.
    pub fn take_late(&mut self, now: Instant) -> Vec<Waiting<J, R>> {
        let late = |call: &Waiting<J, R>| call.terms.deadline.is_some_and(|at| at <= now);
        let mut gone = Vec::new();
        for list in [&mut self.calls, &mut self.outside] {
            // loom has no clock.
            if !cfg!(loom) && list.iter().any(late) {
                let (passed, left): (Vec<_>, Vec<_>) = list.drain(..).partition(late);
                list.extend(left);
                gone.extend(passed);
            }
        }
        gone
    }

    /// The oldest call.
    pub fn take_oldest(&mut self) -> Option<Waiting<J, R>> {
        self.calls.pop_front()
    }

    /// The calls of the next batch, beside its leader, which is the oldest: all, or those of the highest priority, and of these
    /// the oldest.
    pub fn take(&mut self, most: usize) -> Vec<Waiting<J, R>> {
        if self.calls.len() <= most {
            return self.calls.drain(..).collect();
        }
        let mut order: Vec<usize> = (0..self.calls.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(self.calls[at].terms.priority));
        let mut chosen = vec![false; self.calls.len()];
        order.iter().take(most).for_each(|&at| chosen[at] = true);
        let mut taken = Vec::with_capacity(most);
        for (chosen, call) in chosen.into_iter().zip(std::mem::take(&mut self.calls)) {
            if chosen {
                taken.push(call);
            } else {
                self.calls.push_back(call);
            }
        }
        taken
    }
}

//! The calls that wait for a batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use millstream_core::sync::shim::Ordering;

use super::{Entry, Lost, Slot, Terms};

/// A call that waits.
pub(super) struct Waiting<J, R> {
    pub job: J,
    pub terms: Terms,
    pub entry: Arc<Entry<J, R>>,
}

/// What a batch has and may have.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// The rows that it has.
    pub rows: usize,
    /// It takes no more calls when it has so many.
    pub share: usize,
    /// It never has more than so many.
    pub most: usize,
}

impl Room {
    fn is_full(&self) -> bool {
        self.rows >= self.share.min(self.most)
    }

    /// Whether the batch takes a call of so many rows. One that is too large for the rest of the share is taken if it does not
    /// outweigh the others: so calls of equal sizes are shared as calls of one row are, and a large one does not follow small ones.
    fn take(&mut self, rows: usize) -> bool {
        let after = self.rows.saturating_add(rows);
        let takes =
            !self.is_full() && after <= self.most && (after <= self.share || rows <= self.rows);
        if takes {
            self.rows = after;
        }
        takes
    }
}

/// The calls that wait, the oldest first.
pub(super) struct Queue<J, R> {
    calls: VecDeque<Waiting<J, R>>,
    /// How many there may be.
    capacity: usize,
    /// Calls that wait for room, the oldest first. There are none while there is room.
    outside: VecDeque<Waiting<J, R>>,
    /// How many leaders wait for calls to come.
    pub collecting: usize,
    /// Whether one of them gathers calls: a batch that has not begun, which those that come wait for.
    pub gathering: bool,
    /// Whether a call with a deadline may be among them.
    has_deadlines: bool,
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
        let (calls, outside) = (VecDeque::new(), VecDeque::new());
        Self { calls, capacity, outside, collecting: 0, gathering: false, has_deadlines: false }
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// The rows of all calls.
    pub fn rows(&self) -> usize {
        self.calls.iter().map(|call| call.terms.rows).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.calls.len() >= self.capacity
    }

    /// Adds a call: outside if there is no room.
    pub fn push(&mut self, call: Waiting<J, R>) {
        self.has_deadlines |= call.terms.deadline.is_some();
        let list = if self.is_full() { &mut self.outside } else { &mut self.calls };
        list.push_back(call);
        self.note_first();
    }

    /// Tells the oldest call that it is.
    fn note_first(&self) {
        if let Some(call) = self.calls.front() {
            call.entry.is_first.store(true, Ordering::Relaxed);
        }
    }

    /// Lets those in that wait for room, as far as there is some. Whoever has taken calls out does this before the lock is released.
    pub fn admit(&mut self) {
        while !self.outside.is_empty() && !self.is_full() {
            self.calls.extend(self.outside.pop_front());
        }
        self.note_first();
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
    pub fn take_late(&mut self) -> Vec<Waiting<J, R>> {
        // loom has no clock.
        if !self.has_deadlines || cfg!(loom) {
            return Vec::new();
        }
        let now = Instant::now();
        let late = |call: &Waiting<J, R>| call.terms.deadline.is_some_and(|at| at <= now);
        let mut gone = Vec::new();
        for list in [&mut self.calls, &mut self.outside] {
            if list.iter().any(late) {
                let (passed, left): (Vec<_>, Vec<_>) = list.drain(..).partition(late);
                list.extend(left);
                gone.extend(passed);
            }
        }
        let bounded = |call: &Waiting<J, R>| call.terms.deadline.is_some();
        self.has_deadlines = self.calls.iter().chain(&self.outside).any(bounded);
        gone
    }

    /// The first deadline of those that wait.
    pub fn first_deadline(&self) -> Option<Instant> {
        let deadlines = || self.calls.iter().filter_map(|call| call.terms.deadline);
        if self.has_deadlines { deadlines().min() } else { None }
    }

    /// The oldest call.
    pub fn take_oldest(&mut self) -> Option<Waiting<J, R>> {
        self.calls.pop_front()
    }

    /// The calls of the next batch, beside its leader, which is the oldest: all, or those of the highest priority, and of these
    /// the oldest; smaller ones go before those that do not fit. They are added to `taken`, which should have room: the lock is held.
    pub fn take(&mut self, mut room: Room, mut taken: Vec<Waiting<J, R>>) -> Vec<Waiting<J, R>> {
        let priority = self.calls.front().map(|call| call.terms.priority);
        let alike = self.calls.iter().all(|call| Some(call.terms.priority) == priority);
        if alike || room.rows.saturating_add(self.rows()) <= room.share.min(room.most) {
            let fit = self.calls.iter().take_while(|call| room.take(call.terms.rows)).count();
            taken.extend(self.calls.drain(..fit));
        }
        if self.calls.is_empty() || room.is_full() {
            return taken;
        }
        let mut order: Vec<usize> = (0..self.calls.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(self.calls[at].terms.priority));
        let mut chosen = vec![false; self.calls.len()];
        order.iter().for_each(|&at| chosen[at] = room.take(self.calls[at].terms.rows));
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

//! Tasks that wait for a counter: their wakers, by the value that each waits for.
//!
//! A task that is dropped takes its waker out again, so that what is kept is bounded by the tasks that wait
//! now. Wakers are foreign code: they are cloned, called and dropped with no lock held, and a panic of one
//! is nobody's but the executor's that made it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use smallvec::SmallVec;

use crate::sync::shim::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// Wakers that are taken out in one go.
const AT_ONCE: usize = 16;

/// A task's place among those that wait for a counter. One that is empty has none.
#[derive(Debug, Default)]
pub struct Ticket(Option<Key>);

/// The value that a task waits for, and a number that makes it unique.
type Key = (u64, u64);

#[derive(Default)]
pub(super) struct List {
    wakers: BTreeMap<Key, Waker>,
    tickets: u64,
}

pub(super) struct Tasks {
    list: Mutex<List>,
    /// The lowest value that one of them waits for. Only written with the list locked.
    first: AtomicU64,
}

impl Tasks {
    pub fn new() -> Self {
        Self { list: Mutex::new(List::default()), first: AtomicU64::new(u64::MAX) }
    }

    /// The lowest value that one of them waits for; the largest there is if there is none.
    pub fn first(&self) -> u64 {
        // Ordered by the counter's word; see `Timeline::poll`.
        self.first.load(Ordering::Relaxed)
    }

    pub fn lock(&self) -> MutexGuard<'_, List> {
        lock(&self.list)
    }

    /// Has `waker` called for the value. Gives a waker that is of no use any more, to be dropped when the
    /// list is free.
    pub fn add(
        &self,
        list: &mut List,
        ticket: &mut Ticket,
        target: u64,
        waker: Waker,
    ) -> Option<Waker> {
        if let Some(key) = ticket.0.filter(|key| key.0 == target)
            && let Some(known) = list.wakers.get_mut(&key)
        {
            return Some(std::mem::replace(known, waker));
        }
        let old = ticket.0.take().and_then(|key| list.wakers.remove(&key));
        list.tickets += 1;
        let key = (target, list.tickets);
        list.wakers.insert(key, waker);
        ticket.0 = Some(key);
        self.note_first(list);
        old
    }

    /// Takes a waker out. To be dropped when the list is free.
    pub fn remove(&self, list: &mut List, ticket: &mut Ticket) -> Option<Waker> {
        let waker = list.wakers.remove(&ticket.0.take()?);
        self.note_first(list);
        waker
    }

    fn note_first(&self, list: &List) {
        let first = list.wakers.first_key_value().map_or(u64::MAX, |(key, _)| key.0);
        self.first.store(first, Ordering::Relaxed);
    }

    /// Takes those out that wait for no more than `value`, and wakes them.
    pub fn wake(&self, value: u64) {
        loop {
            let mut reached = SmallVec::<[Waker; AT_ONCE]>::new();
            {
                let mut list = self.lock();
                while reached.len() < AT_ONCE
                    && let Some(task) = list.wakers.first_entry().filter(|e| e.key().0 <= value)
                {
                    reached.push(task.remove());
                }
                self.note_first(&list);
            }
            let all = reached.len() < AT_ONCE;
            reached.into_iter().for_each(wake);
            if all {
                return;
            }
        }
    }
}

impl Ticket {
    /// Whether the task never came to wait, or has been taken out again by itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Calls a waker. Its panic must not end a thread that belongs to a device.
pub(crate) fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

#[cfg(test)]
mod tests;

//! Objects that nobody needs but the GPU.
//!
//! Command buffers hold no references to what they use. The event of a batch comes before its command buffer is through, and
//! only the completed handler says that it is. So the release of an object that a command buffer may use is deferred: it goes
//! when every command buffer that was committed before has been handled.
//!
//! Whoever defers something has seen the event of every batch that used it, so those command buffers count as committed.

use std::sync::atomic::{self, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::queue::Timeline;

/// What is kept until the GPU is through with everything. Behind a lock that is held for moments, and taken by handlers
/// only if there is something in it.
#[derive(Default)]
pub(crate) struct DeferredReleases {
    state: Mutex<State>,
    /// How many items `state` has.
    items: AtomicUsize,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    timelines: Vec<Arc<Timeline>>,
    items: Vec<Item>,
    /// Items that were taken off the list and are being dropped: what they hold is not given back yet.
    leaving: usize,
    /// How often items have been dropped.
    releases: u64,
}

struct Item {
    /// Command buffers that must have been handled: timelines, and how far each has to be.
    after: SmallVec<[(Arc<Timeline>, u64); 4]>,
    #[expect(dead_code, reason = "held, not read")]
    what: Box<dyn Send>,
}

impl State {
    fn forget_closed(&mut self) {
        self.timelines.retain(|timeline| !timeline.is_over());
    }
}

impl DeferredReleases {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Command buffers of this timeline count from here on.
    pub fn add(&self, timeline: &Arc<Timeline>) {
        self.lock().timelines.push(Arc::clone(timeline));
    }

    /// No command buffer of it is made any more: it is forgotten when all were handled.
    pub fn close(&self, timeline: &Timeline) {
        timeline.close();
        self.lock().forget_closed();
    }

    /// Drops something when all command buffers that are committed now have been handled.
    pub fn defer(&self, what: impl Send + 'static) {
        let mut state = self.lock();
        state.forget_closed();
        let pending = state.timelines.iter().filter_map(|timeline| {
            let committed = timeline.committed();
            (timeline.handled() < committed).then(|| (Arc::clone(timeline), committed))
        });
        let after: SmallVec<[_; 4]> = pending.collect();
        if after.is_empty() {
            // Others may be about to go, and a thread may wait for the next that does.
            state.leaving += 1;
            drop(state);
            drop(what);
            self.count_released(1);
            return;
        }
        state.items.push(Item { after, what: Box::new(what) });
        self.items.store(state.items.len(), Ordering::Release);
        drop(state);
        // A handler that ran before the item was there has not seen it.
        self.sweep();
    }

    /// Drops what can go. Costs a fence and a load if there is nothing.
    pub fn sweep(&self) {
        // A handler counts itself as handled and then looks for items; who defers adds an item and then looks at what was handled.
        // With this fence between the two on both sides at least one of them sees the other: the item is not left.
        atomic::fence(Ordering::SeqCst);
        if self.items.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.lock();
        let is_free = |item: &mut Item| {
            item.after.retain(|(timeline, committed)| timeline.handled() < *committed);
            item.after.is_empty()
        };
        let free: Vec<Item> = state.items.extract_if(.., is_free).collect();
        self.items.store(state.items.len(), Ordering::Release);
        if free.is_empty() {
            return;
        }
        let count = free.len();
        state.leaving += count;
        drop(state);
        // Not under the lock: what is dropped may defer something itself.
        drop(free);
        self.count_released(count);
    }

    /// So many of those that were leaving have gone.
    fn count_released(&self, count: usize) {
        let mut state = self.lock();
        state.leaving -= count;
        state.releases += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Tries until something is there, again whenever something has been released. Gives up when nothing is left that could be, or
    /// the time is over.
    pub fn retry<T>(&self, timeout: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let until = Instant::now() + timeout;
        loop {
            // Read first: what is released during the attempt counts as news.
            let seen = self.lock().releases;
            if let Some(found) = attempt() {
                return Some(found);
            }
            if !self.wait_past(seen, until) {
                // What can go by now counts too.
                self.sweep();
                return attempt();
            }
        }
    }

    /// Waits until there has been another release. Gives `false` if there is nothing to come, or the time is over.
    fn wait_past(&self, seen: u64, until: Instant) -> bool {
        let mut state = self.lock();
        while state.releases == seen {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.items.len() + state.leaving == 0 {
                return false;
            }
            state =
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Instant::now() < until
    }
}

#[cfg(test)]
mod tests;

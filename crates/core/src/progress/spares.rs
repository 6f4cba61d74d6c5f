//! Lists of batches that have passed, kept for later batches.

use super::Progress;
use crate::backend::{Batch, BatchLists};
use crate::sync::shim::{MutexGuard, lock};

/// How many empty lists a stream keeps, and how many Commands each has room for at most.
const SPARES: usize = 2;
const SPARE_COMMANDS: usize = 64;
/// How many lists with the Commands of a plan a stream keeps, and how many Commands they have in all.
const SPARE_PLANS: usize = 8;
const SPARE_PLAN_COMMANDS: usize = 4096;

/// The lists of a stream.
#[derive(Default)]
pub(super) struct Spares {
    empty: Vec<BatchLists>,
    /// With the Commands of a plan in them, the one used last at the end.
    plans: Vec<BatchLists>,
}

impl Spares {
    fn keep_empty(&mut self, lists: BatchLists) {
        if self.empty.len() < SPARES {
            self.empty.push(lists);
        }
    }

    fn keep_plan(&mut self, lists: BatchLists) {
        self.plans.push(lists);
        // Drops the one that was not used for longest: its plan may be gone too.
        let commands =
            |plans: &[BatchLists]| plans.iter().map(|plan| plan.commands.capacity()).sum::<usize>();
        while self.plans.len() > SPARE_PLANS || commands(&self.plans) > SPARE_PLAN_COMMANDS {
            self.plans.remove(0);
        }
    }
}

impl Progress {
    /// Recycles the lists of a batch that has passed, before its progress is reported. They are large, and stay in
    /// the caches of the core that works with them.
    pub fn recycle(&self, batch: Batch) {
        let lists = batch.into_lists();
        if lists.has_plan() {
            self.spares().keep_plan(lists);
        } else if lists.commands.capacity() <= SPARE_COMMANDS {
            self.spares().keep_empty(lists);
        }
    }

    /// Exchanges empty lists for recycled ones that begin with the Commands of this part of a plan. False if there
    /// are none.
    pub(crate) fn take_plan(&self, key: (u64, u32), lists: &mut BatchLists) -> bool {
        let mut spares = self.spares();
        let Some(index) = spares.plans.iter().rposition(|plan| plan.plan_key() == Some(key)) else {
            return false;
        };
        let plan = spares.plans.remove(index);
        let empty = std::mem::replace(lists, plan);
        if (1..=SPARE_COMMANDS).contains(&empty.commands.capacity()) {
            spares.keep_empty(empty);
        }
        true
    }

    /// Gives empty lists recycled memory, or, if there is none, room for `count` Commands.
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
}

#[cfg(all(test, not(loom)))]
mod tests;

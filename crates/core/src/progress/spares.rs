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
        if empty.commands.capacity() > 0 {
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
mod tests {
    use super::*;

    #[test]
    fn lists_of_batches_are_kept_up_to_a_number_and_a_size() {
        let progress = Progress::new();
        let batch = |room| Batch::new(Vec::with_capacity(room), 1, &[]);
        progress.recycle(batch(SPARE_COMMANDS + 1));
        assert_eq!(progress.spares().empty.len(), 0);
        for _ in 0..SPARES + 3 {
            progress.recycle(batch(SPARE_COMMANDS));
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
            progress.recycle(part(plan, 2));
        }
        assert_eq!(progress.spares().plans.len(), SPARE_PLANS);
        let mut lists = BatchLists::default();
        assert!(!progress.take_plan((0, 0), &mut lists), "the oldest are gone");
        assert!(progress.take_plan((SPARE_PLANS as u64, 0), &mut lists) && lists.has_plan());
        let most = SPARE_PLAN_COMMANDS / 2 + 1;
        progress.recycle(part(100, most));
        progress.recycle(part(101, most));
        let room: usize =
            progress.spares().plans.iter().map(|lists| lists.commands.capacity()).sum();
        assert!(room <= SPARE_PLAN_COMMANDS && room >= most);
    }
}

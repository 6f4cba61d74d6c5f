//! Batches that came before, and their graphs.
//!
//! A batch that is seen for the first time leaves only a number behind. When it comes again it gets a
//! plan: its words, and a graph that was captured from its steps. Where graphs go again before they were
//! worth it, as with threads that hand a stream around and mix their calls in ever new ways, a batch must come
//! more often before it is captured. A graph's transfers go through staging
//! memory of its own, so a plan that is in flight already takes a second graph, up to a bound.

use std::any::Any;
use std::sync::Arc;

use super::staging::Staging;
use crate::driver::Graph;

/// Plans that a queue keeps; the one unused for longest goes.
const PLANS: usize = 64;
/// Graphs that a plan has at most; beyond that a batch is launched step by step.
const GRAPHS: usize = 3;
/// Numbers of batches that were seen and have no plan.
const SEEN: usize = 256;
/// Replays that make up for a capture.
const WORTH: u32 = 16;
/// The most sights that a batch needs before it is captured.
const MOST_PATIENCE: u32 = 64;

/// A graph and the staging memory that it was captured with.
pub(crate) struct Instance<G = Graph> {
    pub graph: G,
    pub staging: Option<Arc<Staging>>,
    /// What the graph uses beside its operands.
    pub _keep: Vec<Box<dyn Any + Send>>,
}

struct Plan<G> {
    hash: u64,
    words: Box<[u64]>,
    used: u64,
    replays: u32,
    instances: Vec<Instance<G>>,
    /// It could not be captured, and is not tried again.
    refused: bool,
}

/// The plans of a queue.
pub(crate) struct Plans<G = Graph> {
    plans: Vec<Plan<G>>,
    /// Numbers of batches, and how often each was seen. 0 marks an empty place.
    seen: Box<[(u64, u32); SEEN]>,
    next_seen: usize,
    clock: u64,
    /// The index of the plan that was found last: mostly it is wanted again.
    latest: usize,
    /// How often a batch must have been seen before it is captured.
    patience: u32,
}

/// What is known about a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing, or that it cannot be captured, or that all its graphs are in flight.
    Launch,
    /// It should be captured: the index of its plan.
    Capture(usize),
    /// It can be replayed: the index of its plan, and of the graph in it.
    Replay(usize, usize),
}

impl<G> Default for Plans<G> {
    fn default() -> Self {
        let seen = Box::new([(0, 0); SEEN]);
        Self { plans: Vec::new(), seen, next_seen: 0, clock: 0, latest: 0, patience: 1 }
    }
}

impl<G> Plans<G> {
    /// Looks a batch up, and remembers that it was seen. `hash` gives its number, if that is needed;
    /// `evicted` is called with what must outlive batches in flight.
    pub fn look_up(
        &mut self,
        hash: impl FnOnce() -> u64,
        words: &[u64],
        mut evicted: impl FnMut(Instance<G>),
    ) -> Known {
        self.clock += 1;
        let again = self.plans.get(self.latest).is_some_and(|plan| *plan.words == *words);
        // A plan knows its number.
        let hash = if again { self.plans[self.latest].hash } else { hash() };
        let same = |plan: &Plan<G>| plan.hash == hash && *plan.words == *words;
        let found = if again { Some(self.latest) } else { self.plans.iter().position(same) };
        if let Some(index) = found {
            self.latest = index;
            let plan = &mut self.plans[index];
            plan.used = self.clock;
            if plan.refused {
                return Known::Launch;
            }
            let free = |instance: &Instance<G>| {
                instance.staging.as_ref().is_none_or(|staging| !staging.is_busy())
            };
            return match plan.instances.iter().position(free) {
                Some(instance) => {
                    plan.replays = plan.replays.saturating_add(1);
                    if plan.replays == WORTH {
                        self.patience = 1;
                    }
                    Known::Replay(index, instance)
                }
                None if plan.instances.len() < GRAPHS => Known::Capture(index),
                None => Known::Launch,
            };
        }
        let mark = hash.max(1);
        match self.seen.iter_mut().find(|seen| seen.0 == mark) {
            Some(seen) if seen.1 >= self.patience => {}
            Some(seen) => {
                seen.1 += 1;
                return Known::Launch;
            }
            None => {
                self.seen[self.next_seen] = (mark, 1);
                self.next_seen = (self.next_seen + 1) % SEEN;
                return Known::Launch;
            }
        }
        if self.plans.len() == PLANS
            && let Some(oldest) = (0..PLANS).min_by_key(|&index| self.plans[index].used)
        {
            let gone = self.plans.swap_remove(oldest);
            if gone.replays < WORTH {
                self.patience = (self.patience * 2).min(MOST_PATIENCE);
            }
            gone.instances.into_iter().for_each(&mut evicted);
        }
        self.plans.push(Plan {
            hash,
            words: words.into(),
            used: self.clock,
            replays: 0,
            instances: Vec::new(),
            refused: false,
        });
        Known::Capture(self.plans.len() - 1)
    }

    /// Adds a graph to a plan; gives its index.
    pub fn add(&mut self, plan: usize, instance: Instance<G>) -> usize {
        let instances = &mut self.plans[plan].instances;
        instances.push(instance);
        instances.len() - 1
    }

    /// A graph of a plan.
    pub fn instance(&mut self, plan: usize, instance: usize) -> &mut Instance<G> {
        &mut self.plans[plan].instances[instance]
    }

    /// Notes that a plan cannot be captured.
    pub fn refuse(&mut self, plan: usize) {
        self.plans[plan].refused = true;
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.plans.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_up(plans: &mut Plans<u32>, number: u64) -> Known {
        plans.look_up(|| number, &[number, 7], |_| {})
    }

    fn plain(graph: u32) -> Instance<u32> {
        Instance { graph, staging: None, _keep: Vec::new() }
    }

    #[test]
    fn the_second_sight_captures_and_the_third_replays() {
        let mut plans = Plans::default();
        assert_eq!(look_up(&mut plans, 5), Known::Launch);
        assert_eq!(look_up(&mut plans, 5), Known::Capture(0));
        let graph = plans.add(0, plain(50));
        assert_eq!(look_up(&mut plans, 5), Known::Replay(0, graph));
        assert_eq!(plans.instance(0, graph).graph, 50);
        // Another batch with the same number is another batch.
        assert_eq!(plans.look_up(|| 5, &[1], |_| {}), Known::Capture(1));
    }

    #[test]
    fn two_plans_do_not_get_in_each_others_way() {
        let mut plans = Plans::default();
        for number in [1, 2, 1, 2] {
            if let Known::Capture(plan) = look_up(&mut plans, number) {
                plans.add(plan, plain(number as u32));
            }
        }
        for number in [1, 2, 2, 1] {
            let Known::Replay(plan, graph) = look_up(&mut plans, number) else { panic!() };
            assert_eq!(plans.instance(plan, graph).graph, number as u32);
        }
    }

    #[test]
    fn batches_seen_once_leave_no_plan_and_push_none_out() {
        let mut plans = Plans::default();
        look_up(&mut plans, 5);
        look_up(&mut plans, 5);
        plans.add(0, plain(1));
        for number in 1000..3000 {
            assert_eq!(look_up(&mut plans, number), Known::Launch);
        }
        assert_eq!((plans.len(), look_up(&mut plans, 5)), (1, Known::Replay(0, 0)));
        // The oldest are forgotten, the newest are not.
        assert_eq!(look_up(&mut plans, 3000 - SEEN as u64 - 1), Known::Launch);
        assert_eq!(look_up(&mut plans, 3000 - SEEN as u64 + 1), Known::Capture(1));
    }

    #[test]
    fn the_plan_unused_for_longest_goes() {
        let mut plans = Plans::default();
        let mut gone = Vec::new();
        for number in 0..PLANS as u64 + 1 {
            look_up(&mut plans, number);
            let known =
                plans.look_up(|| number, &[number, 7], |instance| gone.push(instance.graph));
            let Known::Capture(plan) = known else { panic!("{known:?}") };
            plans.add(plan, plain(number as u32));
            // Number 0 is used all the time.
            assert!(matches!(look_up(&mut plans, 0), Known::Replay(..)));
        }
        assert_eq!((plans.len(), gone), (PLANS, vec![1]));
    }

    #[test]
    fn graphs_that_were_not_worth_it_make_it_harder_for_the_next() {
        let mut plans = Plans::default();
        let captures = |plans: &mut Plans<u32>, numbers: std::ops::Range<u64>| {
            let captured = numbers.filter(|&number| {
                look_up(plans, number);
                match look_up(plans, number) {
                    Known::Capture(plan) => {
                        plans.add(plan, plain(0));
                        true
                    }
                    _ => false,
                }
            });
            captured.count()
        };
        // As many as fit are captured; the next pushes out one that was never replayed.
        assert_eq!(captures(&mut plans, 0..200), PLANS + 1);
        // One that is worth it makes it easy again.
        for _ in 0..WORTH {
            assert!(matches!(look_up(&mut plans, 60), Known::Replay(..)));
        }
        assert_eq!(captures(&mut plans, 1000..1001), 1);
    }

    #[test]
    fn what_cannot_be_captured_is_not_tried_again() {
        let mut plans = Plans::<u32>::default();
        look_up(&mut plans, 5);
        assert_eq!(look_up(&mut plans, 5), Known::Capture(0));
        plans.refuse(0);
        assert_eq!(look_up(&mut plans, 5), Known::Launch);
    }
}

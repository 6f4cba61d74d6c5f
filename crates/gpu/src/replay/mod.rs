//! Batches that came before, and what was captured of them.
//!
//! A batch that occurs for the first time leaves only a number behind. When it occurs again it gets an entry: its
//! words, and its launch list as the platform has captured it. Where entries go again before they were
//! worth it, as with threads that hand a stream around and mix their calls in ever new ways, a batch must occur
//! more often before it is captured. The transfers of a captured list go through staging
//! memory of its own, so a batch that is in flight already is captured a second time, up to a bound.

mod signature;

use std::any::Any;
use std::sync::Arc;

pub(crate) use self::signature::Signature;
use crate::memory::Staging;
use crate::platform::Platform;

/// Entries that a queue keeps; the one unused for longest goes.
const ENTRIES: usize = 64;
/// Captured lists that an entry has at most; beyond that a batch is launched item by item.
const INSTANCES: usize = 3;
/// Numbers of batches that occurred and have no entry.
const OCCURRENCES: usize = 256;
/// Replays that make up for a capture.
const WORTH: u32 = 16;
/// The most occurrences that a batch needs before it is captured.
const MOST_CAPTURE_THRESHOLD: u32 = 64;

/// A captured list and the staging memory that it was captured with.
pub(crate) struct Instance<P: Platform> {
    pub captured: P::Captured,
    pub staging: Option<Arc<Staging<P>>>,
    /// What it uses beside its operands.
    pub _keep: Vec<Box<dyn Any + Send>>,
}

/// What a cache keeps of a batch.
pub(crate) trait Reusable {
    /// Whether a batch in flight uses it, so that it cannot be launched once more.
    fn is_busy(&self) -> bool;
}

impl<P: Platform> Reusable for Instance<P> {
    fn is_busy(&self) -> bool {
        self.staging.as_ref().is_some_and(|staging| staging.is_busy())
    }
}

struct Entry<C> {
    hash: u64,
    words: Box<[u64]>,
    used: u64,
    replays: u32,
    instances: Vec<C>,
    /// It could not be captured, and is not tried again.
    refused: bool,
}

/// What a queue can replay.
pub(crate) struct ReplayCache<C> {
    entries: Vec<Entry<C>>,
    /// Numbers of batches, and how often each occurred. 0 marks an empty place.
    occurrences: Box<[(u64, u32); OCCURRENCES]>,
    next_occurrence: usize,
    clock: u64,
    /// The index of the entry that was found last: mostly it is wanted again.
    latest: usize,
    /// How often a batch must have occurred before it is captured.
    capture_threshold: u32,
}

/// What is to be done with a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Launch it: it is new, or cannot be captured, or all that was captured of it is in flight.
    Launch,
    /// Capture it: the index of its entry.
    Capture(usize),
    /// Replay it: the index of its entry, and of the instance in it.
    Replay(usize, usize),
}

impl<C> Default for ReplayCache<C> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            occurrences: Box::new([(0, 0); OCCURRENCES]),
            next_occurrence: 0,
            clock: 0,
            latest: 0,
            capture_threshold: 1,
        }
    }
}

impl<C: Reusable> ReplayCache<C> {
    /// Looks a batch up, and remembers that it occurred. `hash` gives its number, if that is needed;
    /// `evicted` is called with what must outlive batches in flight.
    pub fn look_up(
        &mut self,
        hash: impl FnOnce() -> u64,
        words: &[u64],
        mut evicted: impl FnMut(C),
    ) -> Lookup {
        self.clock += 1;
        let again = self.entries.get(self.latest).is_some_and(|entry| *entry.words == *words);
        // An entry knows its number.
        let hash = if again { self.entries[self.latest].hash } else { hash() };
        let same = |entry: &Entry<C>| entry.hash == hash && *entry.words == *words;
        let found = if again { Some(self.latest) } else { self.entries.iter().position(same) };
        if let Some(index) = found {
            self.latest = index;
            let entry = &mut self.entries[index];
            entry.used = self.clock;
            if entry.refused {
                return Lookup::Launch;
            }
            return match entry.instances.iter().position(|instance| !instance.is_busy()) {
                Some(instance) => {
                    entry.replays = entry.replays.saturating_add(1);
                    if entry.replays == WORTH {
                        self.capture_threshold = 1;
                    }
                    Lookup::Replay(index, instance)
                }
                None if entry.instances.len() < INSTANCES => Lookup::Capture(index),
                None => Lookup::Launch,
            };
        }
        let mark = hash.max(1);
        match self.occurrences.iter_mut().find(|occurred| occurred.0 == mark) {
            Some(occurred) if occurred.1 >= self.capture_threshold => {}
            Some(occurred) => {
                occurred.1 += 1;
                return Lookup::Launch;
            }
            None => {
                self.occurrences[self.next_occurrence] = (mark, 1);
                self.next_occurrence = (self.next_occurrence + 1) % OCCURRENCES;
                return Lookup::Launch;
            }
        }
        if self.entries.len() == ENTRIES
            && let Some(oldest) = (0..ENTRIES).min_by_key(|&index| self.entries[index].used)
        {
            let gone = self.entries.swap_remove(oldest);
            if gone.replays < WORTH {
                self.capture_threshold = (self.capture_threshold * 2).min(MOST_CAPTURE_THRESHOLD);
            }
            gone.instances.into_iter().for_each(&mut evicted);
        }
        self.entries.push(Entry {
            hash,
            words: words.into(),
            used: self.clock,
            replays: 0,
            instances: Vec::new(),
            refused: false,
        });
        Lookup::Capture(self.entries.len() - 1)
    }

    /// Adds a captured list to an entry; gives its index.
    pub fn add(&mut self, entry: usize, instance: C) -> usize {
        let instances = &mut self.entries[entry].instances;
        instances.push(instance);
        instances.len() - 1
    }

    /// A captured list of an entry.
    pub fn instance(&mut self, entry: usize, instance: usize) -> &mut C {
        &mut self.entries[entry].instances[instance]
    }

    /// Notes that a batch cannot be captured.
    pub fn refuse(&mut self, entry: usize) {
        self.entries[entry].refused = true;
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_up(cache: &mut ReplayCache<Plain>, number: u64) -> Lookup {
        cache.look_up(|| number, &[number, 7], |_| {})
    }

    /// A captured list with a number, which is never in flight.
    struct Plain(u32);

    impl Reusable for Plain {
        fn is_busy(&self) -> bool {
            false
        }
    }

    #[test]
    fn the_second_occurrence_captures_and_the_third_replays() {
        let mut cache = ReplayCache::<Plain>::default();
        assert_eq!(look_up(&mut cache, 5), Lookup::Launch);
        assert_eq!(look_up(&mut cache, 5), Lookup::Capture(0));
        let instance = cache.add(0, Plain(50));
        assert_eq!(look_up(&mut cache, 5), Lookup::Replay(0, instance));
        assert_eq!(cache.instance(0, instance).0, 50);
        // Another batch with the same number is another batch.
        assert_eq!(cache.look_up(|| 5, &[1], |_| {}), Lookup::Capture(1));
    }

    #[test]
    fn two_batches_do_not_get_in_each_others_way() {
        let mut cache = ReplayCache::<Plain>::default();
        for number in [1, 2, 1, 2] {
            if let Lookup::Capture(entry) = look_up(&mut cache, number) {
                cache.add(entry, Plain(number as u32));
            }
        }
        for number in [1, 2, 2, 1] {
            let Lookup::Replay(entry, instance) = look_up(&mut cache, number) else { panic!() };
            assert_eq!(cache.instance(entry, instance).0, number as u32);
        }
    }

    #[test]
    fn batches_that_occur_once_leave_no_entry_and_push_none_out() {
        let mut cache = ReplayCache::<Plain>::default();
        look_up(&mut cache, 5);
        look_up(&mut cache, 5);
        cache.add(0, Plain(1));
        for number in 1000..3000 {
            assert_eq!(look_up(&mut cache, number), Lookup::Launch);
        }
        assert_eq!((cache.len(), look_up(&mut cache, 5)), (1, Lookup::Replay(0, 0)));
        // The oldest are forgotten, the newest are not.
        assert_eq!(look_up(&mut cache, 3000 - OCCURRENCES as u64 - 1), Lookup::Launch);
        assert_eq!(look_up(&mut cache, 3000 - OCCURRENCES as u64 + 1), Lookup::Capture(1));
    }

    #[test]
    fn the_entry_unused_for_longest_goes() {
        let mut cache = ReplayCache::<Plain>::default();
        let mut gone = Vec::new();
        for number in 0..ENTRIES as u64 + 1 {
            look_up(&mut cache, number);
            let known = cache.look_up(|| number, &[number, 7], |instance| gone.push(instance.0));
            let Lookup::Capture(entry) = known else { panic!("{known:?}") };
            cache.add(entry, Plain(number as u32));
            // Number 0 is used all the time.
            assert!(matches!(look_up(&mut cache, 0), Lookup::Replay(..)));
        }
        assert_eq!((cache.len(), gone), (ENTRIES, vec![1]));
    }

    #[test]
    fn captures_that_were_not_worth_it_make_it_harder_for_the_next() {
        let mut cache = ReplayCache::<Plain>::default();
        let captures = |cache: &mut ReplayCache<Plain>, numbers: std::ops::Range<u64>| {
            let captured = numbers.filter(|&number| {
                look_up(cache, number);
                match look_up(cache, number) {
                    Lookup::Capture(entry) => {
                        cache.add(entry, Plain(0));
                        true
                    }
                    _ => false,
                }
            });
            captured.count()
        };
        // As many as fit are captured; the next pushes out one that was never replayed.
        assert_eq!(captures(&mut cache, 0..200), ENTRIES + 1);
        // One that is worth it makes it easy again.
        for _ in 0..WORTH {
            assert!(matches!(look_up(&mut cache, 60), Lookup::Replay(..)));
        }
        assert_eq!(captures(&mut cache, 1000..1001), 1);
    }

    #[test]
    fn what_cannot_be_captured_is_not_tried_again() {
        let mut cache = ReplayCache::<Plain>::default();
        look_up(&mut cache, 5);
        assert_eq!(look_up(&mut cache, 5), Lookup::Capture(0));
        cache.refuse(0);
        assert_eq!(look_up(&mut cache, 5), Lookup::Launch);
    }
}

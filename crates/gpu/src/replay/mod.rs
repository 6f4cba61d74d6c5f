//! Batches that occurred before, and their captured lists.
//!
//! The first occurrence of a batch leaves only a number behind. At the second it gets an entry: its words, and its
//! launch list as the platform has captured it. Entries may be dropped before they were worth it, for example if
//! threads share a stream and mix their calls in ever new ways. Then a batch must occur more often before it is
//! captured. A captured list has its own staging memory for its transfers, so a batch that is already in flight is
//! captured a second time, up to a bound.

mod signature;

use std::any::Any;
use std::sync::Arc;

pub(crate) use self::signature::Signature;
use crate::memory::Staging;
use crate::platform::Platform;

/// How many entries a queue keeps; the one unused for longest is dropped.
const ENTRIES: usize = 64;
/// The most captured lists of an entry. Beyond that a batch is launched item by item.
const INSTANCES: usize = 3;
/// How many numbers of batches without an entry are kept.
const OCCURRENCES: usize = 256;
/// How many replays make up for the cost of a capture.
const WORTH: u32 = 16;
/// The most occurrences that a batch needs before it is captured.
const MAX_CAPTURE_THRESHOLD: u32 = 64;

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
                self.capture_threshold = (self.capture_threshold * 2).min(MAX_CAPTURE_THRESHOLD);
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
mod tests;

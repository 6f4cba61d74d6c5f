//! The segments of a device, by address.
//!
//! Commands name memory by address, launches by segment and offset. The table between the two changes when memory is
//! allocated or freed, which is rare and slow. It is used when a batch is lowered, never when one is replayed. So
//! every change makes a new list, and each queue keeps the list that it saw last. A lookup compares a version, and
//! takes the lock only after a change.

use std::sync::Arc;

use millstream_core::sync::schedule::{AtomicU64, Mutex, MutexGuard, Ordering, PoisonError};

use crate::platform::{Binding, Memory};

/// A segment and its addresses.
#[derive(Clone, Copy)]
struct Entry<S> {
    start: usize,
    end: usize,
    segment: S,
}

/// The segments of a device, by address. A platform has one table for each GPU, and this crate fills it.
pub struct Segments<S> {
    /// How often the list has changed. Written with the lock held.
    version: AtomicU64,
    /// Sorted by address.
    list: Mutex<Arc<[Entry<S>]>>,
}

/// The segments as a queue saw them last.
pub(crate) struct SegmentView<S> {
    version: u64,
    list: Arc<[Entry<S>]>,
    /// The index of the entry that was found last: operands of a Command are often in the same segment.
    latest: usize,
}

/// Memory that can be found by address as long as it lives.
pub(crate) struct Registered<M: Memory> {
    /// Dropped first: as soon as the memory is freed, other memory may get its addresses.
    _registration: Registration<M::Segment>,
    memory: M,
}

/// Removes an entry when it is dropped.
struct Registration<S: Copy> {
    segments: Arc<Segments<S>>,
    start: usize,
}

impl<S: Copy> Default for Segments<S> {
    fn default() -> Self {
        Self { version: AtomicU64::new(0), list: Mutex::new(Arc::new([])) }
    }
}

impl<S: Copy> Segments<S> {
    fn lock(&self) -> MutexGuard<'_, Arc<[Entry<S>]>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Entry<S>>)) {
        let mut list = self.lock();
        let mut changed = list.to_vec();
        change(&mut changed);
        *list = changed.into();
        // Pairs with the load in `find`.
        self.version.fetch_add(1, Ordering::Release);
    }

    fn add(&self, entry: Entry<S>) {
        self.change(|list| {
            let at = list.partition_point(|other| other.start < entry.start);
            list.insert(at, entry);
        });
    }

    fn remove(&self, start: usize) {
        self.change(|list| list.retain(|entry| entry.start != start));
    }
}

impl<S: Copy> Default for SegmentView<S> {
    fn default() -> Self {
        Self { version: 0, list: Arc::new([]), latest: 0 }
    }
}

impl<S: Copy> SegmentView<S> {
    /// The place of an address, if it lies in a segment. Memory that was allocated before this call is found.
    pub fn find(&mut self, segments: &Segments<S>, address: usize) -> Option<Binding<S>> {
        if segments.version.load(Ordering::Acquire) != self.version {
            let list = segments.lock();
            self.list = Arc::clone(&list);
            self.version = segments.version.load(Ordering::Relaxed);
        }
        let lies_in = |entry: &&Entry<S>| entry.start <= address && address < entry.end;
        let entry = match self.list.get(self.latest).filter(lies_in) {
            Some(entry) => entry,
            None => {
                let behind = self.list.partition_point(|entry| entry.start <= address);
                self.latest = behind.checked_sub(1)?;
                // An operand without elements may begin where its segment ends.
                self.list.get(self.latest).filter(|entry| address <= entry.end)?
            }
        };
        Some(Binding { segment: entry.segment, offset: address - entry.start })
    }
}

impl<M: Memory> Registered<M> {
    pub fn new(segments: &Arc<Segments<M::Segment>>, memory: M) -> Self {
        let (start, segment) = (memory.address(), memory.segment());
        segments.add(Entry { start, end: start + memory.bytes(), segment });
        Self { _registration: Registration { segments: Arc::clone(segments), start }, memory }
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The place of its first byte.
    pub fn binding(&self) -> Binding<M::Segment> {
        Binding { segment: self.memory.segment(), offset: 0 }
    }
}

impl<S: Copy> Drop for Registration<S> {
    fn drop(&mut self) {
        self.segments.remove(self.start);
    }
}

#[cfg(test)]
mod tests;

//! The segments of a device, by address.
//!
//! Commands name memory by address, launches by segment and offset. The table between the two changes when memory is
//! allocated or freed, which is rare and slow; it is asked when a batch is lowered, never when one is replayed. So a
//! change makes a new list, and each queue keeps the list that it has seen last: whoever asks compares a version, and
//! takes a lock only after a change.

use std::sync::Arc;

use millstream_core::sync::schedule::{AtomicU64, Mutex, MutexGuard, Ordering, PoisonError};

use crate::platform::{Binding, Memory};

/// A segment and the addresses that are its.
#[derive(Clone, Copy)]
struct Entry<S> {
    start: usize,
    end: usize,
    segment: S,
}

/// The segments of a device, by address. A platform keeps one for each GPU; this crate fills it.
pub struct Segments<S> {
    /// How often the list has changed. Changed with the lock held.
    version: AtomicU64,
    /// In the order of their addresses.
    list: Mutex<Arc<[Entry<S>]>>,
}

/// The segments as a queue has seen them last.
pub(crate) struct SegmentView<S> {
    version: u64,
    list: Arc<[Entry<S>]>,
    /// The index of the entry that was found last: operands of one Command mostly lie in one segment.
    latest: usize,
}

/// Memory that can be found by address as long as it lives.
pub(crate) struct Registered<M: Memory> {
    /// Dropped first: when the memory goes, its addresses may be another's at once.
    _registration: Registration<M::Segment>,
    memory: M,
}

/// Takes an entry off when it is dropped.
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
    /// The place of an address, if it lies in a segment. What was allocated before by who calls is found.
    pub fn find(&mut self, segments: &Segments<S>, address: usize) -> Option<Binding<S>> {
        if segments.version.load(Ordering::Acquire) != self.version {
            let list = segments.lock();
            self.list = Arc::clone(&list);
            self.version = segments.version.load(Ordering::Relaxed);
        }
        // An operand without elements may begin where its segment ends.
        let lies_in = |entry: &&Entry<S>| entry.start <= address && address < entry.end;
        let entry = match self.list.get(self.latest).filter(lies_in) {
            Some(entry) => entry,
            None => {
                let behind = self.list.partition_point(|entry| entry.start <= address);
                self.latest = behind.checked_sub(1)?;
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

    /// Its first byte.
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
mod tests {
    use super::*;

    struct Plain(usize, usize);

    impl Memory for Plain {
        type Segment = usize;

        fn address(&self) -> usize {
            self.0
        }

        fn bytes(&self) -> usize {
            self.1
        }

        fn segment(&self) -> usize {
            self.0 / 100
        }
    }

    fn place(segment: usize, offset: usize) -> Option<Binding<usize>> {
        Some(Binding { segment, offset })
    }

    #[test]
    fn an_address_is_found_in_its_segment_and_nowhere_else() {
        let segments = Arc::new(Segments::default());
        let mut view = SegmentView::default();
        assert_eq!(view.find(&segments, 0), None);
        let held = [(300, 100), (100, 50), (400, 10)]
            .map(|(address, bytes)| Registered::new(&segments, Plain(address, bytes)));
        for (address, expected) in [
            (99, None),
            (100, place(1, 0)),
            (149, place(1, 49)),
            // The end of one that has no neighbor, for operands without elements.
            (150, place(1, 50)),
            (151, None),
            (399, place(3, 99)),
            // The end of one is the beginning of the next.
            (400, place(4, 0)),
            (411, None),
        ] {
            assert_eq!(view.find(&segments, address), expected, "{address}");
        }
        drop(held);
        assert_eq!(view.find(&segments, 100), None);
    }

    #[test]
    fn a_view_sees_what_was_allocated_and_freed_since() {
        let segments = Arc::new(Segments::default());
        let mut view = SegmentView::default();
        let first = Registered::new(&segments, Plain(100, 100));
        assert_eq!(view.find(&segments, 150), place(1, 50));
        drop(first);
        // Another one at addresses of the first.
        let _second = Registered::new(&segments, Plain(0, 200));
        assert_eq!(view.find(&segments, 150), place(0, 150));
    }

    #[test]
    fn threads_find_what_they_were_handed() {
        let segments = Arc::new(Segments::default());
        let (send, receive) = std::sync::mpsc::channel();
        let finder = {
            let segments = Arc::clone(&segments);
            std::thread::spawn(move || {
                let mut view = SegmentView::default();
                for memory in receive {
                    let memory: Registered<Plain> = memory;
                    assert_eq!(
                        view.find(&segments, memory.memory().0 + 1),
                        place(memory.memory().0 / 100, 1)
                    );
                }
            })
        };
        for number in 1..200 {
            send.send(Registered::new(&segments, Plain(number * 100, 100))).unwrap();
        }
        drop(send);
        finder.join().unwrap();
    }
}

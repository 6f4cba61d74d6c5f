//! Faults, and the values that they spoil.
//!
//! A fault belongs to the values that the failed Command should have made, and to those computed from them,
//! wherever that runs. Memory knows it: each block remembers which of its bytes failed ([`Marks`]), for one
//! allocation of the block. Queues keep the marks up to date, in the order in which Commands run: a Command
//! that reads marked bytes marks what it writes and is not run, a Command that ran clears what it wrote.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::memory::Block;
use crate::sync::schedule::{AtomicBool, Ordering};
use crate::{Error, Layout};

/// Whether any Command of this process ever failed. Marks are only looked for if so. Set before the first
/// mark is made; whoever is ordered after that Command sees it.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there may be marks.
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Why values are not there. Clones name the same fault, so that it is known when somebody was told.
#[derive(Clone, Debug)]
pub struct Fault(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    error: Error,
    told: AtomicBool,
}

impl Fault {
    /// A fault that nobody was told of yet.
    pub fn new(error: Error) -> Self {
        ANY.store(true, Ordering::Relaxed);
        Fault(Arc::new(Inner { error, told: AtomicBool::new(false) }))
    }

    /// What happened.
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// What happened, for a caller: from here on somebody knows.
    pub fn tell(&self) -> Error {
        self.0.told.store(true, Ordering::Relaxed);
        self.0.error.clone()
    }

    /// Whether somebody was told.
    pub fn is_told(&self) -> bool {
        self.0.told.load(Ordering::Relaxed)
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

/// The bytes of a block that failed, for one allocation of it.
#[derive(Default)]
pub(crate) struct Marks {
    generation: u64,
    list: Vec<Mark>,
}

struct Mark {
    bytes: Range<usize>,
    /// Where the values lie among these bytes.
    layout: Layout,
    fault: Fault,
}

/// The bytes between the first and the last that a layout touches.
fn hull(layout: &Layout) -> Range<usize> {
    if layout.is_empty() { 0..0 } else { layout.start_bytes()..layout.extent_bytes() }
}

impl Marks {
    /// What a Command should have written failed.
    pub fn fail(&mut self, generation: u64, layout: &Layout, fault: &Fault) {
        self.overwrite(generation, layout);
        let bytes = hull(layout);
        if bytes.is_empty() {
            return;
        }
        // Pieces of one value fail together; a list that grew with their number would be of no use.
        let neighbor = self.list.iter_mut().find(|mark| {
            mark.fault.is(fault) && (mark.bytes.end == bytes.start || bytes.end == mark.bytes.start)
        });
        match neighbor {
            Some(mark) if mark.layout.is_dense() && layout.is_dense() => {
                mark.bytes = mark.bytes.start.min(bytes.start)..mark.bytes.end.max(bytes.end);
            }
            _ => self.list.push(Mark { bytes, layout: *layout, fault: fault.clone() }),
        }
    }

    /// Values were written: what had failed there is of the past. Whether any marks are left.
    pub fn overwrite(&mut self, generation: u64, layout: &Layout) -> bool {
        if self.generation != generation {
            self.generation = generation;
            self.list.clear();
        }
        let written = hull(layout);
        if layout.is_dense() {
            let mut rest = SmallVec::<[Mark; 2]>::new();
            self.list.retain_mut(|mark| {
                let old = mark.bytes.clone();
                if written.end <= old.start || old.end <= written.start {
                    return true;
                }
                let (before, after) = (old.start..written.start, written.end..old.end);
                for bytes in [before, after].into_iter().filter(|bytes| bytes.start < bytes.end) {
                    rest.push(Mark { bytes, layout: mark.layout, fault: mark.fault.clone() });
                }
                false
            });
            self.list.extend(rest);
        } else {
            // Between its elements lie others, of which nothing is known: only the same places are mended.
            self.list.retain(|mark| mark.layout != *layout);
        }
        !self.list.is_empty()
    }

    /// Why what a Command reads is not there.
    pub fn find(&self, generation: u64, layout: &Layout) -> Option<&Fault> {
        if self.generation != generation {
            return None;
        }
        let read = hull(layout);
        let overlaps = |mark: &&Mark| mark.bytes.start < read.end && read.start < mark.bytes.end;
        self.list.iter().find(overlaps).map(|mark| &mark.fault)
    }

    /// Why some of the contents are not there.
    pub fn any(&self, generation: u64) -> Option<&Fault> {
        self.list.first().filter(|_| self.generation == generation).map(|mark| &mark.fault)
    }
}

/// An operand as a value: a block, and which allocation of it.
///
/// The block lives until the batch has passed. Afterwards nobody looks at this.
#[derive(Clone, Copy)]
pub(crate) struct Value {
    /// None for settled contents, which are good.
    pub block: Option<NonNull<Block>>,
    pub generation: u64,
}

// SAFETY: a `Block` may be used from any thread.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    fn block(&self) -> Option<&Block> {
        // SAFETY: blocks live until every batch that uses them has passed, and only a batch that has not
        // passed looks; those of a lost device are never freed.
        self.block.map(|block| unsafe { block.as_ref() })
    }

    pub fn failed(&self, layout: &Layout) -> Option<Fault> {
        self.block()?.failed(self.generation, layout)
    }

    pub fn fail(&self, layout: &Layout, fault: &Fault) {
        if let Some(block) = self.block() {
            block.fail(self.generation, layout, fault);
        }
    }

    pub fn overwrite(&self, layout: &Layout) {
        if let Some(block) = self.block() {
            block.overwrite(self.generation, layout);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::DType;

    fn fault(text: &str) -> Fault {
        Fault::new(Error::DeviceClosed { device: text.into() })
    }

    fn bytes(range: Range<usize>) -> Layout {
        Layout::contiguous(DType::U8, &[range.len()]).unwrap().shifted(range.start).unwrap()
    }

    fn found(marks: &Marks, range: Range<usize>) -> Option<Error> {
        marks.find(1, &bytes(range)).map(|fault| fault.error().clone())
    }

    #[test]
    fn a_write_mends_what_it_covers_and_nothing_else() {
        let (mut marks, bad) = (Marks::default(), fault("bad"));
        marks.fail(1, &bytes(10..90), &bad);
        assert!(marks.overwrite(1, &bytes(30..50)));
        assert_eq!(found(&marks, 30..50), None);
        assert_eq!(found(&marks, 0..10), None);
        for range in [10..30, 50..90, 29..31, 49..50 + 1, 0..100] {
            assert_eq!(found(&marks, range), Some(bad.error().clone()));
        }
        assert!(!marks.overwrite(1, &bytes(0..100)));
        assert_eq!(found(&marks, 0..100), None);
    }

    #[test]
    fn the_latest_fault_of_a_place_counts() {
        let mut marks = Marks::default();
        marks.fail(1, &bytes(0..20), &fault("first"));
        let second = fault("second");
        marks.fail(1, &bytes(5..10), &second);
        assert_eq!(found(&marks, 5..10), Some(second.error().clone()));
        assert_ne!(found(&marks, 10..20), Some(second.error().clone()));
    }

    #[test]
    fn values_between_which_others_lie_are_mended_by_the_same_places_only() {
        let column = |first| Layout::strided(DType::U8, &[4], &[4], first).unwrap();
        let mut marks = Marks::default();
        marks.fail(1, &column(0), &fault("bad"));
        assert!(marks.overwrite(1, &column(1)), "another column");
        assert!(!marks.overwrite(1, &column(0)));
    }

    #[test]
    fn another_allocation_of_the_block_starts_without_marks() {
        let mut marks = Marks::default();
        marks.fail(1, &bytes(0..20), &fault("bad"));
        assert!(marks.find(2, &bytes(0..20)).is_none());
        assert!(marks.any(1).is_some() && marks.any(2).is_none());
        marks.fail(2, &bytes(30..40), &fault("later"));
        assert!(marks.find(2, &bytes(0..20)).is_none());
    }

    #[test]
    fn pieces_of_one_value_are_one_mark() {
        let (mut marks, bad) = (Marks::default(), fault("bad"));
        for piece in 0..1000 {
            marks.fail(1, &bytes(piece * 10..piece * 10 + 10), &bad);
        }
        assert_eq!(marks.list.len(), 1);
        assert!(!marks.overwrite(1, &bytes(0..10_000)));
    }

    #[test]
    fn telling_is_remembered_by_all_clones() {
        let (first, second) = (fault("bad"), fault("other"));
        let clone = first.clone();
        assert!(!clone.is_told());
        first.tell();
        assert!(clone.is_told() && !second.is_told());
    }
}

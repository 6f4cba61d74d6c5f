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
use crate::{DType, Error, Layout, MAX_RANK, size};

/// Whether any Command of this process ever failed. Marks are only looked for if so. Set before the first
/// mark is made; whoever is ordered after that Command sees it.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there may be marks.
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Marks that faults make in a block at most. With more, neighbors become one, with what lies between them.
const MAX_MARKS: usize = 1024;

/// Why a value was not computed. Clones are the same fault: once one is reported, all are.
#[derive(Clone, Debug)]
pub struct Fault(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    error: Error,
    reported: AtomicBool,
}

impl Fault {
    /// A fault that was not reported yet.
    pub fn new(error: Error) -> Self {
        ANY.store(true, Ordering::Relaxed);
        Fault(Arc::new(Inner { error, reported: AtomicBool::new(false) }))
    }

    /// What happened.
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// What happened, for a caller: from here on somebody knows.
    pub fn report(&self) -> Error {
        self.0.reported.store(true, Ordering::Relaxed);
        self.0.error.clone()
    }

    /// Whether it was reported to a caller.
    pub fn is_reported(&self) -> bool {
        self.0.reported.load(Ordering::Relaxed)
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
    /// Where the values lie among these bytes. If it is dense they fill all of them, whatever it says.
    layout: Layout,
    fault: Fault,
}

/// The bytes between the first and the last that a layout touches.
fn hull(layout: &Layout) -> Range<usize> {
    if layout.is_empty() { 0..0 } else { layout.start_bytes()..layout.extent_bytes() }
}

/// Runs of bytes that begin at equal distances.
#[derive(Clone, Copy)]
struct Runs {
    start: usize,
    bytes: usize,
    /// The distance; 0 for a single run.
    distance: usize,
}

impl Runs {
    fn single(bytes: Range<usize>) -> Self {
        Self { start: bytes.start, bytes: bytes.len(), distance: 0 }
    }

    /// Runs that hold all elements of a layout that lies in a buffer.
    fn of(layout: &Layout) -> Self {
        if layout.dtype().per_byte() > 1 {
            return Self::single(layout.start_bytes()..layout.extent_bytes());
        }
        let size = layout.dtype().size();
        let axes = layout.shape().iter().zip(layout.strides()).filter(|(count, _)| **count > 1);
        let mut axes: SmallVec<[_; MAX_RANK]> =
            axes.map(|(count, stride)| (stride.saturating_mul(size), count - 1)).collect();
        axes.sort_unstable();
        let mut runs = Self { start: layout.start_bytes(), bytes: size, distance: 0 };
        for (stride, steps) in axes {
            if stride <= runs.bytes {
                runs.bytes = size::advance(runs.bytes, steps, stride);
            } else {
                runs.distance = common_divisor(runs.distance, stride);
            }
        }
        runs
    }

    /// Whether no run of the one shares a byte with a run of the other. False where that is not seen by
    /// how they begin.
    fn are_apart(&self, other: &Self) -> bool {
        let distance = common_divisor(self.distance, other.distance);
        if distance == 0 {
            return false;
        }
        let (one, two) = (self.start % distance, other.start % distance);
        let from = |first: usize, second: usize| (second + distance - first) % distance;
        from(one, two) >= self.bytes && from(two, one) >= other.bytes
    }
}

fn common_divisor(mut one: usize, mut other: usize) -> usize {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

impl Mark {
    fn runs(&self) -> Runs {
        if self.layout.is_dense() {
            Runs::single(self.bytes.clone())
        } else {
            Runs::of(&self.layout)
        }
    }

    /// Whether the bytes between the first and the last of a read, and its elements, may meet this.
    fn meets(&self, bytes: &Range<usize>, read: &Layout) -> bool {
        self.bytes.start < bytes.end
            && bytes.start < self.bytes.end
            && !self.runs().are_apart(&Runs::of(read))
    }
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
            _ => {
                self.list.push(Mark { bytes, layout: *layout, fault: fault.clone() });
                if self.list.len() > MAX_MARKS {
                    self.join_neighbors();
                }
            }
        }
    }

    /// Makes one mark of every two that lie next to each other, which takes what lies between with them.
    fn join_neighbors(&mut self) {
        self.list.sort_unstable_by_key(|mark| mark.bytes.start);
        let mut marks = std::mem::take(&mut self.list).into_iter();
        while let Some(mut mark) = marks.next() {
            if let Some(next) = marks.next() {
                mark.bytes.end = mark.bytes.end.max(next.bytes.end);
                mark.layout = Layout::scalar(DType::U8);
            }
            self.list.push(mark);
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
        self.list.iter().find(|mark| mark.meets(&read, layout)).map(|mark| &mark.fault)
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

/// A value, and where in its block it begins: not at the first byte in the arena of a plan.
#[derive(Clone, Copy)]
pub(crate) struct PlacedValue {
    pub value: Value,
    /// A multiple of the sizes of all elements.
    pub offset: usize,
}

// SAFETY: a `Block` may be used from any thread.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    /// Settled contents.
    pub const GOOD: Self = Value { block: None, generation: 0 };

    fn block(&self) -> Option<&Block> {
        // SAFETY: blocks live until every batch that uses them has passed, and only a batch that has not
        // passed looks; those of a lost device are never freed.
        self.block.map(|block| unsafe { block.as_ref() })
    }
}

impl From<Value> for PlacedValue {
    fn from(value: Value) -> Self {
        Self { value, offset: 0 }
    }
}

impl PlacedValue {
    /// A layout of the value as one of the block.
    fn placed(&self, layout: &Layout) -> Layout {
        if self.offset == 0 {
            return *layout;
        }
        // Operands lie inside their buffers, and those inside the block, so that this does not fail.
        let dtype = layout.dtype();
        let elements = (self.offset / dtype.size()).saturating_mul(dtype.per_byte());
        layout.shifted(elements).unwrap_or(*layout)
    }

    pub fn failed(&self, layout: &Layout) -> Option<Fault> {
        self.value.block()?.failed(self.value.generation, &self.placed(layout))
    }

    pub fn fail(&self, layout: &Layout, fault: &Fault) {
        if let Some(block) = self.value.block() {
            block.fail(self.value.generation, &self.placed(layout), fault);
        }
    }

    pub fn overwrite(&self, layout: &Layout) {
        if let Some(block) = self.value.block() {
            block.overwrite(self.value.generation, &self.placed(layout));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

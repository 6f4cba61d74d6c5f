//! A lowered batch: kernels, products and copies with all their arguments, in order.
//!
//! When a list is complete, everything that can fail for its own reasons (compiling, allocating, searching for an
//! algorithm) has happened. What is left is to give it to a queue, directly or under capture. Every item knows its
//! Command. A list is reused from batch to batch.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use millstream_core::sync::Cached;
use millstream_core::{BoundCommand, RawBuffer};
use smallvec::SmallVec;

use super::hazards::Hazards;
use super::written::Written;
use crate::failure::Failure;
use crate::platform::{Binding, Platform};

/// One item of a launch list.
pub enum Item<'a, P: Platform> {
    /// A kernel of the common source.
    Kernel {
        /// The kernel.
        kernel: &'a P::Kernel,
        /// Groups along three axes.
        groups: [u32; 3],
        /// Threads of each group.
        threads: u32,
        /// Its buffers, in the order of its arguments.
        bindings: &'a [Binding<P::Segment>],
        /// The bytes of the struct that is its last argument, as words. Empty if there is no such argument.
        params: &'a [u64],
    },
    /// A product of the library.
    Product(&'a P::Product),
    /// A copy of bytes. One of the two places is in memory that the host reaches.
    Copy {
        /// The destination.
        target: Binding<P::Segment>,
        /// The source.
        source: Binding<P::Segment>,
        /// The number of bytes.
        bytes: usize,
    },
    /// The device's clock in nanoseconds, written as one word.
    Time {
        /// The destination.
        target: Binding<P::Segment>,
    },
    /// The end of the batch: it counts as [completed](Platform::completed), with the faults that kernels have
    /// reported.
    Finish,
    /// [`Copy`](Self::Copy) and [`Finish`](Self::Finish) in one, for at most
    /// [`KERNEL_COPY_BYTES`](Platform::KERNEL_COPY_BYTES).
    CopyAndFinish {
        /// The destination.
        target: Binding<P::Segment>,
        /// The source.
        source: Binding<P::Segment>,
        /// The number of bytes.
        bytes: usize,
    },
}

enum Stored<P: Platform> {
    Kernel {
        kernel: Cached<'static, P::Kernel>,
        groups: [u32; 3],
        threads: u32,
        bindings: Range<usize>,
        params: Range<usize>,
    },
    Product(P::Product),
    Copy {
        target: Binding<P::Segment>,
        source: Binding<P::Segment>,
        bytes: usize,
        finishes: bool,
    },
    Time(Binding<P::Segment>),
    Finish,
}

/// The launches of one batch.
pub struct LaunchList<P: Platform> {
    items: Vec<Stored<P>>,
    bindings: Vec<Binding<P::Segment>>,
    /// How many bindings belong to kernels that are complete.
    named: usize,
    params: Vec<u64>,
    /// The index of the Command of every item.
    owners: Vec<usize>,
    /// For every item whether it waits for all before it; empty unless that matters.
    waits: Vec<bool>,
    /// For every item the work of its Command; empty unless that matters.
    works: Vec<u64>,
    hazards: Hazards,
    /// The Command whose items are added, and what it writes.
    owner: usize,
    writes: SmallVec<[RawBuffer; 2]>,
    written: Written,
    /// What must outlive this batch and the batches before it.
    pub(crate) keep: Vec<Box<dyn Any + Send>>,
}

/// A position in the list.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    items: usize,
    bindings: usize,
    params: usize,
}

/// An item that could not be launched.
pub struct LaunchFailure {
    /// How many items were launched before.
    pub launched: usize,
    /// The index of its Command; for the end of the batch, the number of Commands.
    pub command: usize,
    /// Why.
    pub failure: Failure,
}

impl<P: Platform> Default for LaunchList<P> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            bindings: Vec::new(),
            named: 0,
            params: Vec::new(),
            owners: Vec::new(),
            waits: Vec::new(),
            works: Vec::new(),
            hazards: Hazards::default(),
            owner: 0,
            writes: SmallVec::new(),
            written: Written::default(),
            keep: Vec::new(),
        }
    }
}

impl<P: Platform> LaunchList<P> {
    /// Removes all items. What must outlive a batch stays until a batch is launched that can keep it.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.bindings.clear();
        self.named = 0;
        self.params.clear();
        self.owners.clear();
        self.waits.clear();
        self.works.clear();
        self.hazards.clear();
        // The end of another batch comes before the first kernel of this one. It writes nothing that Commands read,
        // and has waited for everything before it. Before a captured list, everything has ended.
        self.written.clear();
    }

    /// Items that are added from here on belong to this Command. Returns the position of the first of them.
    pub(crate) fn begin(&mut self, index: usize, command: &BoundCommand) -> Mark {
        self.owner = index;
        self.writes.clear();
        self.writes.extend(command.outputs().iter().map(|output| output.buffer));
        if P::CONCURRENT {
            self.hazards.begin(command);
        }
        if P::BOUNDED {
            self.hazards.work = command.work();
        }
        let (bindings, params) = (self.bindings.len(), self.params.len());
        Mark { items: self.items.len(), bindings, params }
    }

    /// Items that are added from here on belong to no Command. If one of them fails, all Commands from `index` on
    /// fail.
    pub(crate) fn begin_between(&mut self, index: usize) {
        self.owner = index;
        self.writes.clear();
        self.hazards.begin_between();
    }

    /// The Command uses scratch memory too.
    pub(crate) fn uses_scratch(&mut self, scratch: RawBuffer) {
        if P::CONCURRENT {
            self.hazards.add_scratch(scratch);
        }
    }

    /// Removes the items after a position.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.items.truncate(mark.items);
        self.bindings.truncate(mark.bindings);
        self.named = mark.bindings;
        self.params.truncate(mark.params);
        self.owners.truncate(mark.items);
        self.waits.truncate(mark.items);
        self.works.truncate(mark.items);
        self.hazards.set_unknown();
        self.written.set_unknown();
    }

    /// Whether the kernel that is added next may read the buffer before the previous kernel has ended.
    pub(crate) fn is_early(&self, buffer: RawBuffer) -> bool {
        !self.written.may_reach(buffer)
    }

    fn push(&mut self, item: Stored<P>) {
        let is_kernel = match item {
            Stored::Kernel { .. } | Stored::Time(_) | Stored::Finish => true,
            Stored::Copy { bytes, .. } => bytes <= P::KERNEL_COPY_BYTES,
            Stored::Product(_) => false,
        };
        if is_kernel {
            self.written.replace(&self.writes);
        } else {
            self.written.add(&self.writes);
        }
        if P::CONCURRENT {
            let is_time = matches!(item, Stored::Time(_));
            let waits = is_time || !matches!(item, Stored::Finish) && self.hazards.waits();
            self.waits.push(waits);
            if is_time {
                // It stands between what comes before and behind.
                self.hazards.set_unknown();
            }
        }
        if P::BOUNDED {
            self.works.push(self.hazards.work);
        }
        self.items.push(item);
        self.owners.push(self.owner);
    }

    /// Whether an item waits for all before it. Of others those since the last that waited may run at the same time.
    pub fn waits(&self, index: usize) -> bool {
        self.waits.get(index).copied().unwrap_or(true)
    }

    /// The [work](millstream_core::Command::work) of the Command that an item belongs to; known on platforms with a
    /// bound on it.
    pub fn work(&self, index: usize) -> u64 {
        self.works.get(index).copied().unwrap_or(0)
    }

    /// The index of the Command that an item belongs to.
    pub fn command(&self, index: usize) -> usize {
        self.owners[index]
    }

    /// How many items there are.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds a buffer argument of the kernel that is added next.
    pub(crate) fn argument(&mut self, binding: Binding<P::Segment>) {
        self.bindings.push(binding);
    }

    /// Adds a kernel of the common source, with the buffer arguments that were added since the last one.
    pub(crate) fn kernel(
        &mut self,
        kernel: Cached<'static, P::Kernel>,
        groups: [u32; 3],
        threads: u32,
        params: &[u8],
    ) {
        if let Cached::Owned(own) = &kernel {
            // The cache is full, so the batch keeps the kernel.
            self.keep.push(Box::new(Arc::clone(own)));
        }
        let bindings = self.named..self.bindings.len();
        self.named = bindings.end;
        let first = self.params.len();
        let (words, _) = params.as_chunks::<8>();
        self.params.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
        let params = first..self.params.len();
        self.push(Stored::Kernel { kernel, groups, threads, bindings, params });
    }

    /// Adds a product of the library.
    pub(crate) fn product(&mut self, product: P::Product) {
        self.push(Stored::Product(product));
    }

    /// Adds a copy from or to memory that the host reaches.
    pub(crate) fn copy(
        &mut self,
        target: Binding<P::Segment>,
        source: Binding<P::Segment>,
        bytes: usize,
    ) {
        self.push(Stored::Copy { target, source, bytes, finishes: false });
    }

    /// Adds a reading of the clock.
    pub(crate) fn time(&mut self, target: Binding<P::Segment>) {
        self.push(Stored::Time(target));
    }

    /// Adds the end of the batch.
    pub(crate) fn finish(&mut self) {
        self.push(Stored::Finish);
    }

    /// Adds a download and the end of the batch as one item.
    pub(crate) fn copy_and_finish(
        &mut self,
        target: Binding<P::Segment>,
        source: Binding<P::Segment>,
        bytes: usize,
    ) {
        self.push(Stored::Copy { target, source, bytes, finishes: true });
    }

    fn item(&self, index: usize) -> Item<'_, P> {
        match &self.items[index] {
            Stored::Kernel { kernel, groups, threads, bindings, params } => Item::Kernel {
                kernel,
                groups: *groups,
                threads: *threads,
                bindings: &self.bindings[bindings.clone()],
                params: &self.params[params.clone()],
            },
            Stored::Product(product) => Item::Product(product),
            &Stored::Copy { target, source, bytes, finishes: false } => {
                Item::Copy { target, source, bytes }
            }
            &Stored::Copy { target, source, bytes, finishes: true } => {
                Item::CopyAndFinish { target, source, bytes }
            }
            &Stored::Time(target) => Item::Time { target },
            Stored::Finish => Item::Finish,
        }
    }

    /// All items, in order.
    pub fn iter(&self) -> impl Iterator<Item = Item<'_, P>> {
        (0..self.items.len()).map(|index| self.item(index))
    }

    /// Launches all items, in order, each by a call of `launch`.
    ///
    /// # Errors
    ///
    /// The first item that failed; those after it are not launched.
    pub fn launch_each(
        &self,
        mut launch: impl FnMut(Item<'_, P>) -> Result<(), Failure>,
    ) -> Result<(), LaunchFailure> {
        for (launched, item) in self.iter().enumerate() {
            let command = self.owners[launched];
            launch(item).map_err(|failure| LaunchFailure { launched, command, failure })?;
        }
        Ok(())
    }
}

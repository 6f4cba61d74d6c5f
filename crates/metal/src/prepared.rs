//! Launch lists in the form in which they are encoded: the calls of an encoder in order, without those that would change nothing.

use std::ops::Range;

use millstream_gpu::{Binding, Failure, Item, LaunchList, Platform};
use objc2_metal::MTLComputePipelineState;

use crate::builtin::COPY_THREADS;
use crate::indirect::Indirect;
use crate::objects::{Raw, RawBufferObject};
use crate::platform::Metal;

/// Buffers that an encoder has places for.
pub(crate) const PLACES: usize = 31;
/// Where kernels find which part of a cut launch they are.
pub(crate) const GRID_INDEX: usize = 30;
/// Words of that: where the part begins, and groups in all, along three axes.
pub(crate) const GRID_WORDS: usize = 3;
/// Parts that a launch is cut into at most.
const MAX_PIECES: u64 = 64;

/// One call of an encoder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Pipeline(Raw<dyn MTLComputePipelineState>),
    Buffer {
        buffer: RawBufferObject,
        offset: usize,
        index: u8,
    },
    /// Another place of the buffer that is bound there.
    Offset {
        offset: usize,
        index: u8,
    },
    /// The fault record of the batch.
    Faults {
        index: u8,
    },
    /// Words of the list.
    Bytes {
        words: Range<u32>,
        index: u8,
    },
    /// Everything before it has to end.
    Barrier,
    Dispatch {
        groups: [u32; 3],
        threads: u32,
    },
    /// The rest goes into another command buffer.
    Part,
    /// The clock, written to a place when the batch is through, or by what follows.
    Time {
        buffer: RawBufferObject,
        offset: usize,
    },
    /// The times so far are written: what follows uses one.
    WriteTimes,
}

/// A list that can be encoded again and again.
#[derive(Default)]
pub(crate) struct Prepared {
    pub ops: Vec<Op>,
    pub words: Vec<u64>,
    /// How many times it writes the clock.
    pub times: usize,
    /// How many command buffers it has beside the first.
    pub parts: usize,
    /// The same as commands that are there already, where they are wanted.
    pub indirect: Option<Indirect>,
    state: State,
    /// Where times go that are not written yet.
    unwritten: Vec<RawBufferObject>,
}

/// What the encoder knows while the list is made.
#[derive(Default)]
struct State {
    pipeline: Option<Raw<dyn MTLComputePipelineState>>,
    bound: [Option<Bound>; PLACES],
    /// Something was dispatched that nothing has waited for.
    running: bool,
    /// The work of this command buffer so far.
    work: u64,
    is_cut: bool,
}

#[derive(Clone, PartialEq)]
enum Bound {
    Buffer(RawBufferObject, usize),
    Faults,
    Bytes(Range<u32>),
}

/// A launch that is added.
struct Launch<'a> {
    pipeline: Raw<dyn MTLComputePipelineState>,
    bindings: &'a [Binding<RawBufferObject>],
    params: &'a [u64],
    groups: [u32; 3],
    threads: u32,
    /// Its text knows how to be cut.
    can_be_cut: bool,
    work: u64,
    waits: bool,
}

impl Prepared {
    /// Replaces what is there by a list. `faults` is the buffer of fault records.
    ///
    /// # Errors
    ///
    /// What cannot be encoded.
    pub fn fill(
        &mut self,
        platform: &Metal,
        list: &LaunchList<Metal>,
        faults: RawBufferObject,
    ) -> Result<(), Failure> {
        self.ops.clear();
        self.words.clear();
        (self.times, self.parts) = (0, 0);
        self.indirect = None;
        self.state = State::default();
        self.unwritten.clear();
        for (index, item) in list.iter().enumerate() {
            let (waits, work) = (list.waits(index), list.work(index));
            match item {
                Item::Kernel { kernel, groups, threads, bindings, params } => {
                    let pipeline = kernel.raw();
                    let can_be_cut = true;
                    let launch = Launch {
                        pipeline,
                        bindings,
                        params,
                        groups,
                        threads,
                        can_be_cut,
                        work,
                        waits,
                    };
                    self.launch(&launch, platform.max_launch_work(), faults)?;
                }
                Item::Copy { target, source, bytes }
                | Item::CopyAndFinish { target, source, bytes } => {
                    let copy = platform.gpu.builtins.copy(target.offset, source.offset, bytes);
                    let bindings = [
                        Binding { offset: copy.target, ..target },
                        Binding { offset: copy.source, ..source },
                    ];
                    let launch = Launch {
                        pipeline: copy.pipeline,
                        bindings: &bindings,
                        params: &copy.params,
                        groups: [copy.groups, 1, 1],
                        threads: COPY_THREADS,
                        can_be_cut: false,
                        work,
                        waits,
                    };
                    self.launch(&launch, platform.max_launch_work(), faults)?;
                }
                Item::Time { target } => {
                    self.ops.push(Op::Time { buffer: target.segment, offset: target.offset });
                    self.times += 1;
                    // Without counters its handler has written it before anything goes on.
                    if platform.gpu.clock.counters {
                        self.unwritten.push(target.segment);
                    }
                    // It stands between two encoders.
                    self.state = State { work: self.state.work, ..State::default() };
                }
                Item::Product(product) => match *product {},
                Item::Finish => {}
            }
        }
        Ok(())
    }

    fn launch(
        &mut self,
        launch: &Launch<'_>,
        max_work: u64,
        faults: RawBufferObject,
    ) -> Result<(), Failure> {
        if launch.bindings.len() >= GRID_INDEX {
            let text = format!("{} buffers", launch.bindings.len());
            return Err(Failure::new("setBuffer", "too many", text));
        }
        if launch.bindings.iter().any(|binding| self.unwritten.contains(&binding.segment)) {
            self.unwritten.clear();
            self.ops.push(Op::WriteTimes);
            // It stands between two encoders, as a time does.
            self.state = State { work: self.state.work, ..State::default() };
        }
        let pieces = match launch.can_be_cut {
            true => launch.work.div_ceil(max_work).clamp(1, MAX_PIECES) as u32,
            false => 1,
        };
        // Along the axis with the most groups.
        let axis = (0..3).max_by_key(|&axis| launch.groups[axis]).unwrap_or(0);
        let step = launch.groups[axis].div_ceil(pieces).max(1);
        let work = launch.work / u64::from(pieces);
        for first in (0..launch.groups[axis]).step_by(step as usize) {
            if self.state.work > 0 && self.state.work.saturating_add(work) > max_work {
                self.ops.push(Op::Part);
                self.parts += 1;
                self.state = State::default();
            }
            self.state.work = self.state.work.saturating_add(work);
            // Parts of one launch do not depend on each other.
            if launch.waits && first == 0 && self.state.running {
                self.ops.push(Op::Barrier);
            }
            self.state.running = true;
            self.set(launch, faults);
            let mut groups = launch.groups;
            groups[axis] = step.min(launch.groups[axis] - first);
            self.set_grid(launch, (axis, first), pieces > 1);
            self.ops.push(Op::Dispatch { groups, threads: launch.threads });
        }
        Ok(())
    }

    /// Pipeline, buffers and params, as far as they are not what is set already.
    fn set(&mut self, launch: &Launch<'_>, faults: RawBufferObject) {
        if self.state.pipeline != Some(launch.pipeline) {
            self.ops.push(Op::Pipeline(launch.pipeline));
            self.state.pipeline = Some(launch.pipeline);
        }
        for (index, binding) in launch.bindings.iter().enumerate() {
            let (buffer, offset) = (binding.segment, binding.offset);
            let wanted =
                if buffer == faults { Bound::Faults } else { Bound::Buffer(buffer, offset) };
            let is = &mut self.state.bound[index];
            if is.as_ref() == Some(&wanted) {
                continue;
            }
            let index = index as u8;
            self.ops.push(match (&wanted, &*is) {
                (Bound::Faults, _) => Op::Faults { index },
                (Bound::Buffer(..), Some(Bound::Buffer(other, _))) if *other == buffer => {
                    Op::Offset { offset, index }
                }
                _ => Op::Buffer { buffer, offset, index },
            });
            *is = Some(wanted);
        }
        if !launch.params.is_empty() {
            self.set_words(launch.bindings.len(), launch.params);
        }
    }

    fn set_words(&mut self, index: usize, words: &[u64]) {
        let same = |bound: &Bound| match bound {
            Bound::Bytes(range) => self.words[range.start as usize..range.end as usize] == *words,
            _ => false,
        };
        if self.state.bound[index].as_ref().is_some_and(same) {
            return;
        }
        let first = self.words.len() as u32;
        self.words.extend_from_slice(words);
        let range = first..self.words.len() as u32;
        self.ops.push(Op::Bytes { words: range.clone(), index: index as u8 });
        self.state.bound[index] = Some(Bound::Bytes(range));
    }

    /// Says which part of a launch this is; every encoder begins with what says that it is all of it.
    fn set_grid(&mut self, launch: &Launch<'_>, (axis, first): (usize, u32), is_cut: bool) {
        if !is_cut && !self.state.is_cut {
            return;
        }
        let mut grid = [0u32; 2 * GRID_WORDS];
        if is_cut {
            grid[axis] = first;
            grid[3..].copy_from_slice(&launch.groups);
        }
        let (pairs, _) = grid.as_chunks::<2>();
        let words: [u64; GRID_WORDS] =
            std::array::from_fn(|at| u64::from(pairs[at][0]) | u64::from(pairs[at][1]) << 32);
        self.set_words(GRID_INDEX, &words);
        self.state.is_cut = is_cut;
    }
}

//! The loops of all reductions.

use std::mem::MaybeUninit;

use millstream_core::{Axes, Operand, RawBuffer};

use super::super::block::{BLOCK, Input, Output, Scratch, base};
use super::super::lanes::{self, LANES, accumulate};
use super::super::number::Stored;
use super::super::parallel::{Parallel, share};
use super::super::walk::Walk;

/// Neighbouring outputs that are computed together when their inputs are neighbours in memory.
const TILE: usize = 32;

/// What is reduced to what.
pub(super) struct Plan<'a> {
    dst: &'a Operand<RawBuffer>,
    src: &'a Operand<RawBuffer>,
    parallel: &'a dyn Parallel,
    shape: Shape,
}

struct Shape {
    /// The axes that stay, of output and input: one element of it is one output.
    kept: Walk<2>,
    /// The axes that vanish, of the input, in row-major order: one walk of it makes one output.
    reduced: Walk<1>,
}

impl<'a> Plan<'a> {
    pub fn new(
        axes: Axes,
        dst: &'a Operand<RawBuffer>,
        src: &'a Operand<RawBuffer>,
        parallel: &'a dyn Parallel,
    ) -> Self {
        let all = 0..src.layout.rank();
        let kept = all.clone().filter(|&axis| !axes.contains(axis));
        let reduced = all.filter(|&axis| axes.contains(axis));
        Plan {
            dst,
            src,
            parallel,
            shape: Shape {
                kept: Walk::over([&dst.layout, &src.layout], kept),
                reduced: Walk::over([&src.layout], reduced),
            },
        }
    }

    /// How many elements make one output.
    pub fn count(&self) -> usize {
        self.shape.count()
    }

    /// Computes every output as `finish` of its elements, combined by `step(partial, element, index
    /// of the element)` and `merge`, in the order that [`lanes`] sets.
    ///
    /// # Safety
    ///
    /// As for [`execute`](super::super::execute), and the types are those of the operands.
    pub unsafe fn fold<S: Stored, D: Stored, P: Copy + Send + Sync>(
        &self,
        start: P,
        step: impl Fn(P, S::Compute, usize) -> P + Sync,
        merge: impl Fn(P, P) -> P + Sync,
        finish: impl Fn(P) -> D + Sync,
    ) {
        // SAFETY: passed on.
        let (to, from) = unsafe { (base::<D>(self.dst), base::<S>(self.src)) };
        let (output, input) = (Output::new(to, 0), Input::new(from, 0, to));
        let shape = &self.shape;
        let store = |index, partials| {
            let result = finish(lanes::merge(partials, &merge));
            // SAFETY: each output is stored once, by the chunk that has it.
            unsafe { output.set(shape.kept.position(0, index), result) };
        };
        let outputs = shape.kept.elements();
        if shape.is_columnar() {
            let tiles = outputs.div_ceil(TILE);
            share(self.parallel, tiles, shape.count().saturating_mul(TILE), |range| {
                let range = range.start * TILE..(range.end * TILE).min(outputs);
                shape.kept.blocks(range, TILE, |first, len| {
                    // SAFETY: a block does not go beyond a row, so the inputs are neighbours.
                    let partials = unsafe { shape.columns(&input, first, len, start, &step) };
                    for column in 0..len {
                        store(first + column, partials.map(|lane| lane[column]));
                    }
                });
            });
        } else {
            share(self.parallel, outputs, shape.count(), |range| {
                for index in range {
                    // SAFETY: the element belongs to the input, which nobody writes.
                    let partials = unsafe { shape.row(&input, index, start, &step) };
                    store(index, partials);
                }
            });
        }
    }
}

impl Shape {
    fn count(&self) -> usize {
        self.reduced.elements()
    }

    /// Whether neighbouring outputs have neighbouring inputs, and one output has not.
    fn is_columnar(&self) -> bool {
        // Blocks end at the end of a row only in rows of at least a quarter of a block.
        self.kept.inner_stride(1) == 1
            && self.kept.inner() >= TILE / 4
            && self.reduced.inner_stride(0) != 1
            && self.count() > 1
    }

    /// The partials of one output.
    unsafe fn row<S: Stored, P: Copy>(
        &self,
        input: &Input<S>,
        index: usize,
        start: P,
        step: impl Fn(P, S::Compute, usize) -> P,
    ) -> [P; LANES] {
        let mut partials = [start; LANES];
        let mut scratch = Scratch::new();
        let count = self.count();
        if count == 0 {
            return partials;
        }
        // SAFETY: passed on.
        let input = unsafe { input.moved(self.kept.position(1, index)) };
        for first in (0..count).step_by(BLOCK) {
            let len = BLOCK.min(count - first);
            // SAFETY: passed on.
            let block = unsafe { input.read(&self.reduced, first, len, &mut scratch) };
            accumulate(&mut partials, first, block, &step);
        }
        partials
    }

    /// The partials of neighbouring outputs.
    unsafe fn columns<S: Stored, P: Copy>(
        &self,
        input: &Input<S>,
        first: usize,
        len: usize,
        start: P,
        step: impl Fn(P, S::Compute, usize) -> P,
    ) -> [[P; TILE]; LANES] {
        let mut partials = [[start; TILE]; LANES];
        let mut values = [const { MaybeUninit::uninit() }; TILE];
        let values = &mut values[..len];
        let column = self.kept.position(1, first);
        let stride = self.reduced.inner_stride(0);
        self.reduced.runs(0, 0, self.count(), |position, before, count| {
            for i in 0..count {
                // SAFETY: `len` elements from here on belong to the input, and all are written to
                // `values`.
                let values = unsafe {
                    input.widen(column + position + i * stride, values);
                    values.assume_init_ref()
                };
                let index = before + i;
                for (partial, &value) in partials[index % LANES].iter_mut().zip(values) {
                    *partial = step(*partial, value, index);
                }
            }
        });
        partials
    }
}

const _: () = assert!(BLOCK.is_multiple_of(LANES));

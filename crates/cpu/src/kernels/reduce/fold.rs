//! The loops of all reductions.

use std::mem::MaybeUninit;
use std::ops::Range;

use millstream_core::{Axes, DType, Operand, RawBuffer};

use crate::kernels::shared::block::{BLOCK, BlockBuffer, blocks};
use crate::kernels::shared::lanes::{Columns, LANES, accumulate, merge};
use crate::kernels::shared::operand::{Computed, Input, Output};
use crate::kernels::shared::parallel::{Parallel, parallel_for};
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::walk::Walk;

/// Neighboring outputs that are computed together when their inputs are neighbors in memory.
const TILE: usize = 64;

/// How many rows of memory ahead are asked for.
const AHEAD: usize = 8;

/// What is reduced to what.
pub(super) struct Reduction<'a> {
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

impl<'a> Reduction<'a> {
    pub fn new(
        axes: Axes,
        dst: &'a Operand<RawBuffer>,
        src: &'a Operand<RawBuffer>,
        parallel: &'a dyn Parallel,
    ) -> Self {
        let all = 0..src.layout.rank();
        let kept = all.clone().filter(|&axis| !axes.contains(axis));
        let reduced = all.filter(|&axis| axes.contains(axis));
        Reduction {
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

    /// The type of the input.
    pub fn dtype(&self) -> DType {
        self.src.layout.dtype()
    }

    /// Computes every output as `finalize` of its elements, combined by `step(partial, element, index
    /// of the element)` and `merge`, in the order that [`lanes`](crate::kernels::shared::lanes) sets. The loops
    /// are compiled for each ISA.
    ///
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), and the operands are computed in these types.
    pub unsafe fn fold<C: Computed, D: Computed, P: Copy + Send + Sync>(
        &self,
        start: P,
        step: impl Fn(P, C, usize) -> P + Sync,
        merge: impl Fn(P, P) -> P + Sync,
        finalize: impl Fn(P) -> D + Sync,
    ) {
        // SAFETY: passed on.
        unsafe { self.run::<true, C, D, P>(start, step, merge, finalize) }
    }

    /// As [`fold`](Self::fold), for steps that vector instructions do little for: the loops are compiled once.
    ///
    /// # Safety
    ///
    /// As for [`fold`](Self::fold).
    pub unsafe fn fold_portable<C: Computed, D: Computed, P: Copy + Send + Sync>(
        &self,
        start: P,
        step: impl Fn(P, C, usize) -> P + Sync,
        merge: impl Fn(P, P) -> P + Sync,
        finalize: impl Fn(P) -> D + Sync,
    ) {
        // SAFETY: passed on.
        unsafe { self.run::<false, C, D, P>(start, step, merge, finalize) }
    }

    unsafe fn run<const EACH_ISA: bool, C: Computed, D: Computed, P: Copy + Send + Sync>(
        &self,
        start: P,
        step: impl Fn(P, C, usize) -> P + Sync,
        merge: impl Fn(P, P) -> P + Sync,
        finalize: impl Fn(P) -> D + Sync,
    ) {
        // SAFETY: passed on.
        let (output, input) =
            unsafe { (Output::new(self.dst, 0), Input::new(self.src, 0, self.dst)) };
        let shape = &self.shape;
        let fold = Fold { shape, output, input, start, step, merge, finalize };
        let (outputs, count) = (shape.kept.elements(), self.count());
        if !shape.is_columnar() {
            return parallel_for(self.parallel, outputs, count, |range| {
                run::<EACH_ISA>(Rows { fold: &fold, range });
            });
        }
        let work = count.saturating_mul(TILE.min(outputs));
        parallel_for(self.parallel, outputs.div_ceil(TILE), work, |range| {
            let range = range.start * TILE..(range.end * TILE).min(outputs);
            shape.kept.blocks(range, TILE, |first, len| {
                // SAFETY: a block does not go beyond a row, so the inputs are neighbors.
                unsafe { fold.tile::<EACH_ISA>(first, len) };
            });
        });
    }
}

/// Runs a loop that is compiled for each ISA, or for what every CPU has.
#[inline(always)]
fn run<const EACH_ISA: bool>(function: impl SimdFn) {
    if EACH_ISA { vectorized(function) } else { function.run() }
}

/// How elements are combined.
struct Fold<'a, C, D, P, Step, Merge, Finalize> {
    shape: &'a Shape,
    output: Output<D>,
    input: Input<C>,
    start: P,
    step: Step,
    merge: Merge,
    finalize: Finalize,
}

impl<C, D, P, Step, Merge, Finalize> Fold<'_, C, D, P, Step, Merge, Finalize>
where
    C: Computed,
    D: Computed,
    P: Copy,
    Step: Fn(P, C, usize) -> P,
    Merge: Fn(P, P) -> P,
    Finalize: Fn(P) -> D,
{
    /// Computes an output.
    ///
    /// # Safety
    ///
    /// Nobody else has this output, nor writes the input.
    #[inline(always)]
    unsafe fn one(&self, index: usize) {
        let (shape, count) = (self.shape, self.shape.count());
        let (mut partials, mut scratch) = ([self.start; LANES], BlockBuffer::new());
        if count > 0 {
            // SAFETY: there is an element, so the input has a first one.
            let input = unsafe { self.input.moved(shape.kept.position(1, index)) };
            for (first, len) in blocks(count, BLOCK) {
                // SAFETY: the elements belong to the input.
                let block = unsafe { input.read(&shape.reduced, first, len, &mut scratch) };
                accumulate(&mut partials, first, block, &self.step);
            }
        }
        let result = (self.finalize)(merge(partials, count, &self.merge));
        // SAFETY: passed on.
        unsafe { self.output.set(shape.kept.position(0, index), result) };
    }

    /// Computes neighboring outputs.
    ///
    /// # Safety
    ///
    /// Nobody else has these outputs, nor writes the input, and their inputs are neighbors too.
    unsafe fn tile<const EACH_ISA: bool>(&self, first: usize, len: usize) {
        let shape = self.shape;
        let mut columns = Columns::new(self.start, shape.count());
        let column = shape.kept.position(1, first);
        shape.reduced.of(0).runs(0, shape.count(), |position, before, count| {
            let (fold, place) = (self, column + position);
            run::<EACH_ISA>(Run { fold, columns: &mut columns, place, before, count, len });
        });
        for (column, &merged) in columns.merge(&self.merge)[..len].iter().enumerate() {
            let result = (self.finalize)(merged);
            // SAFETY: passed on.
            unsafe { self.output.set(shape.kept.position(0, first + column), result) };
        }
    }
}

/// Some outputs of a fold, which nobody else has; nobody writes the input.
struct Rows<'a, F> {
    fold: &'a F,
    range: Range<usize>,
}

impl<C, D, P, Step, Merge, Finalize> SimdFn for Rows<'_, Fold<'_, C, D, P, Step, Merge, Finalize>>
where
    C: Computed,
    D: Computed,
    P: Copy,
    Step: Fn(P, C, usize) -> P,
    Merge: Fn(P, P) -> P,
    Finalize: Fn(P) -> D,
{
    #[inline(always)]
    fn run(self) {
        for index in self.range {
            // SAFETY: the value says so.
            unsafe { self.fold.one(index) };
        }
    }
}

/// `count` rows of `len` columns, from `place` on, of which `before` came before; they belong to the
/// input, and nobody writes them.
struct Run<'a, F, P> {
    fold: &'a F,
    columns: &'a mut Columns<P, TILE>,
    place: usize,
    before: usize,
    count: usize,
    len: usize,
}

impl<C, D, P, Step, Merge, Finalize> SimdFn for Run<'_, Fold<'_, C, D, P, Step, Merge, Finalize>, P>
where
    C: Computed,
    P: Copy,
    Step: Fn(P, C, usize) -> P,
{
    #[inline(always)]
    fn run(self) {
        let stride = self.fold.shape.reduced.inner_stride(0);
        let mut values = [const { MaybeUninit::uninit() }; TILE];
        let values = &mut values[..self.len];
        for row in 0..self.count {
            let place = self.place + row * stride;
            self.fold.input.prefetch(place.wrapping_add(AHEAD.wrapping_mul(stride)), self.len);
            // SAFETY: the elements belong to the input.
            let values = unsafe { self.fold.input.dense(place, values) };
            let index = self.before + row;
            for (partial, &value) in self.columns.row(index).iter_mut().zip(values) {
                *partial = (self.fold.step)(*partial, value, index);
            }
        }
    }
}

impl Shape {
    fn count(&self) -> usize {
        self.reduced.elements()
    }

    /// Whether neighboring outputs have neighboring inputs, and one output has not.
    fn is_columnar(&self) -> bool {
        // Blocks end at the end of a row only in rows of at least a quarter of a block.
        self.kept.inner_stride(1) == 1
            && self.kept.inner() >= TILE / 4
            && self.reduced.inner_stride(0) != 1
            && self.count() > 1
    }
}

const _: () = assert!(BLOCK.is_multiple_of(LANES));

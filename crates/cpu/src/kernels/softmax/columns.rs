//! Many columns at once, where the memory goes across the rows.

use std::mem::MaybeUninit;

use super::{Softmax, larger};
use crate::kernels::shared::block::{BLOCK, blocks};
use crate::kernels::shared::lanes::{Columns, LANES};
use crate::kernels::shared::number::Float;
use crate::kernels::shared::operand::Computed;
use crate::kernels::shared::parallel::{Parallel, parallel_for};
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// Fewer columns than this are not worth it.
pub(super) const FEWEST: usize = 8;

/// Columns at once: some lines of each row of memory.
const WIDTH: usize = 64;

/// How many rows of memory ahead are asked for.
const AHEAD: usize = 8;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn run<C: Float + Computed>(softmax: &Softmax<C>, parallel: &dyn Parallel) {
    let inner = softmax.rows.inner();
    // Strips end where the columns are no longer neighbors.
    let strips = inner.div_ceil(WIDTH);
    let all = softmax.rows.elements() / inner * strips;
    parallel_for(parallel, all, softmax.row.elements().saturating_mul(WIDTH.min(inner)), |range| {
        for strip in range {
            let column = strip % strips * WIDTH;
            let width = WIDTH.min(inner - column);
            // Strips are disjoint; what is its own output is read before it is written.
            let first = strip / strips * inner + column;
            let first = [0, 1].map(|operand| softmax.rows.position(operand, first));
            vectorized(Strip { softmax, first, width });
        }
        softmax.output.end_chunk();
    });
}

/// Neighboring columns. Nobody else touches those of the output, nor writes those of the input.
struct Strip<'a, C> {
    softmax: &'a Softmax<C>,
    /// Where it starts, in output and input.
    first: [usize; 2],
    width: usize,
}

impl<C: Float + Computed> SimdFn for Strip<'_, C> {
    // No loop is inside a closure: one that is not inlined stays with the instructions of every
    // CPU.
    #[inline(always)]
    fn run(self) {
        let number = C::from_f64;
        let Softmax { row, log, output, .. } = self.softmax;
        let (log, count) = (*log, row.elements());
        let mut scratch = [const { MaybeUninit::uninit() }; WIDTH];
        let mut tops = [-C::INFINITY; WIDTH];
        for index in 0..count {
            for (top, &x) in tops.iter_mut().zip(self.values(index, &mut scratch)) {
                *top = larger(*top, x);
            }
        }
        let mut sums = Columns::<f64, WIDTH>::new(0.0, count);
        for (first, len) in blocks(count, BLOCK) {
            let mut part = Columns::<C, WIDTH>::new(C::ZERO, len);
            for index in 0..len {
                let values = self.values(first + index, &mut scratch);
                for ((sum, &x), &top) in part.row(index).iter_mut().zip(values).zip(&tops) {
                    *sum += (x - top).exp_nonpositive();
                }
            }
            for lane in 0..len.min(LANES) {
                for (sum, part) in sums.row(lane).iter_mut().zip(part.row(lane)) {
                    *sum += part.to_f64();
                }
            }
        }
        // What each power is multiplied by, or each logarithm less.
        let mut totals = [C::ZERO; WIDTH];
        let sums = sums.merge(|a, b| a + b);
        for (total, sum) in totals[..self.width].iter_mut().zip(sums) {
            *total = number(if log { sum.ln() } else { 1.0 / sum });
        }
        let stride = row.inner_stride(0);
        let mut results = [C::ZERO; WIDTH];
        let results = &mut results[..self.width];
        for index in 0..count {
            let values = self.values(index, &mut scratch).iter().zip(&tops).zip(&totals);
            if log {
                for (result, ((&x, &top), &total)) in results.iter_mut().zip(values) {
                    *result = (x - top) - total;
                }
            } else {
                for (result, ((&x, &top), &total)) in results.iter_mut().zip(values) {
                    *result = (x - top).exp_nonpositive() * total;
                }
            }
            // SAFETY: the elements are those of the strip.
            unsafe { output.store_dense(self.first[0] + index * stride, results) };
        }
    }
}

impl<C: Float + Computed> Strip<'_, C> {
    /// The strip's part of a row of memory.
    #[inline(always)]
    fn values<'b>(&self, index: usize, scratch: &'b mut [MaybeUninit<C>; WIDTH]) -> &'b [C] {
        let input = &self.softmax.input;
        let stride = self.softmax.row.inner_stride(1);
        let place = self.first[1] + index * stride;
        input.prefetch(place.wrapping_add(AHEAD.wrapping_mul(stride)), self.width);
        // SAFETY: the elements are those of the strip; a row is read before it is written.
        unsafe { input.dense(place, &mut scratch[..self.width]) }
    }
}

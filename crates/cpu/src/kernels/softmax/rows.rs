//! One row after another.

use std::mem::MaybeUninit;

use super::{Softmax, larger};
use crate::kernels::shared::block::{BLOCK, BlockBuffer, blocks};
use crate::kernels::shared::lanes::{LANES, accumulate, merge};
use crate::kernels::shared::number::Float;
use crate::kernels::shared::operand::{Computed, Input};
use crate::kernels::shared::parallel::{Parallel, parallel_for};
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// Rows up to this length keep their exponentials; those of longer rows are computed twice.
const KEPT: usize = 4 * BLOCK;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn run<C: Float + Computed>(softmax: &Softmax<C>, parallel: &dyn Parallel) {
    parallel_for(parallel, softmax.rows.elements(), softmax.row.elements(), |range| {
        for index in range.clone() {
            // Rows are disjoint; a row that is its own output is read before it is written.
            let next =
                (index + 1 < range.end && softmax.output.is_streaming()).then_some(index + 1);
            vectorized(Row { softmax, index, next });
        }
        softmax.output.end_chunk();
    });
}

/// One row. Nobody else touches that of the output, nor writes that of the input.
struct Row<'a, C> {
    softmax: &'a Softmax<C>,
    index: usize,
    /// The row that is worth asking for meanwhile.
    next: Option<usize>,
}

impl<C: Float + Computed> SimdFn for Row<'_, C> {
    #[inline(always)]
    fn run(self) {
        let Softmax { rows, row, log, .. } = self.softmax;
        let (to, from) = (rows.position(0, self.index), rows.position(1, self.index));
        let next = self.next.map(|next| rows.position(1, next));
        let count = row.elements();
        // SAFETY: the row exists.
        let (output, input) =
            unsafe { (self.softmax.output.moved(to), self.softmax.input.moved(from)) };
        // SAFETY: the value says so.
        let top = unsafe { self.top(&input) };

        let mut values = BlockBuffer::new();
        let mut sums = [0.0f64; LANES];
        let mut powers = [const { MaybeUninit::uninit() }; KEPT];
        let kept = |first| if count <= KEPT { first } else { 0 };
        for (first, len) in blocks(count, BLOCK) {
            if let Some(next) = next {
                self.softmax.input.prefetch(next + first, len);
            }
            // SAFETY: the value says so.
            let block = unsafe { input.read(row, first, len, &mut values) };
            let part = sum_of_exponentials(block, top, &mut powers[kept(first)..][..len]);
            for (sum, part) in sums.iter_mut().zip(part) {
                *sum += part.to_f64();
            }
        }
        let sum = merge(sums, count, |a, b| a + b);

        let mut results = BlockBuffer::new();
        let number = C::from_f64;
        // What each power is multiplied by, or each logarithm less.
        let total = number(if *log { sum.ln() } else { 1.0 / sum });
        for (first, len) in blocks(count, output.block()) {
            // SAFETY: the value says so; a block is read before it is written, and all of it is
            // written.
            unsafe {
                if *log {
                    let block = input.read(row, first, len, &mut values);
                    output.write(row, first, len, &mut results, |results| {
                        for (result, &x) in results.iter_mut().zip(block) {
                            result.write((x - top) - total);
                        }
                    });
                    continue;
                }
                let powers = if count <= KEPT {
                    powers[first..][..len].assume_init_ref()
                } else {
                    let block = input.read(row, first, len, &mut values);
                    exponentials(block, top, &mut powers[..len])
                };
                output.write(row, first, len, &mut results, |results| {
                    for (result, &power) in results.iter_mut().zip(powers) {
                        result.write(power * total);
                    }
                });
            }
        }
    }
}

impl<C: Float + Computed> Row<'_, C> {
    /// The largest element. Taken off all, it makes the largest exponent 0, so nothing overflows.
    ///
    /// # Safety
    ///
    /// Nobody writes the row.
    #[inline(always)]
    unsafe fn top(&self, input: &Input<C>) -> C {
        let row = &self.softmax.row;
        let (mut tops, mut values) = ([-C::INFINITY; LANES], BlockBuffer::new());
        for (first, len) in blocks(row.elements(), BLOCK) {
            // SAFETY: passed on.
            let block = unsafe { input.read(row, first, len, &mut values) };
            accumulate(&mut tops, first, block, |top, x, _| larger(top, x));
        }
        merge(tops, row.elements(), larger)
    }
}

/// `e^(x - top)` of every value.
#[inline(always)]
fn exponentials<'a, F: Float>(values: &[F], top: F, powers: &'a mut [MaybeUninit<F>]) -> &'a [F] {
    debug_assert_eq!(values.len(), powers.len());
    for (power, &x) in powers.iter_mut().zip(values) {
        power.write((x - top).exp_nonpositive());
    }
    // SAFETY: the loop wrote one power for each value, and there are as many.
    unsafe { powers.assume_init_ref() }
}

/// The same, with their sums in each lane.
#[inline(always)]
fn sum_of_exponentials<F: Float>(
    values: &[F],
    top: F,
    powers: &mut [MaybeUninit<F>],
) -> [F; LANES] {
    let mut sums = [F::ZERO; LANES];
    let (groups, rest) = values.as_chunks::<LANES>();
    let (to, to_rest) = powers.as_chunks_mut::<LANES>();
    for (to, group) in to.iter_mut().zip(groups) {
        for lane in 0..LANES {
            let power = (group[lane] - top).exp_nonpositive();
            to[lane].write(power);
            sums[lane] += power;
        }
    }
    for (lane, (to, &x)) in to_rest.iter_mut().zip(rest).enumerate() {
        let power = (x - top).exp_nonpositive();
        to.write(power);
        sums[lane] += power;
    }
    sums
}

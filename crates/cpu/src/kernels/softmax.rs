//! Softmax and its logarithm along an axis.

use std::mem::MaybeUninit;

use millstream_core::{DType, Operand, RawBuffer};

use super::block::{BLOCK, Input, Output, Scratch, base};
use super::number::{Float, StoredFloat, with_float};
use super::parallel::{Parallel, share};
use super::simd::{Job, vectorised};
use super::walk::Walk;

/// Rows up to this length keep their exponentials; those of longer rows are computed twice.
const KEPT: usize = 4 * BLOCK;

/// # Safety
///
/// As for [`execute`](super::execute).
pub(super) unsafe fn softmax(
    axis: usize,
    log: bool,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let layouts = [&dst.layout, &src.layout];
    let rows = Walk::over(layouts, (0..dst.layout.rank()).filter(|&other| other != axis));
    let row = Walk::over(layouts, [axis]);
    if row.elements() == 0 {
        return;
    }
    with_float!(dst.layout.dtype(), T => {
        // SAFETY: passed on.
        let (to, from) = unsafe { (base::<T>(dst), base::<T>(src)) };
        let output = Output::new(to, 0).of_elements(dst.layout.elements());
        let input = Input::new(from, 1, to);
        share(parallel, rows.elements(), row.elements(), |range| {
            for index in range {
                // SAFETY: rows are disjoint; a row that is its own output is read before it is
                // written.
                unsafe {
                    let output = output.moved(rows.position(0, index));
                    let input = input.moved(rows.position(1, index));
                    vectorised(Row { row: &row, log, output, input });
                }
            }
            output.finish_chunk();
        });
    });
}

/// One row, at the first elements of output and input. Nobody else touches that of the output, nor
/// writes that of the input.
struct Row<'a, T> {
    row: &'a Walk<2>,
    log: bool,
    output: Output<T>,
    input: Input<T>,
}

impl<T: StoredFloat> Job for Row<'_, T> {
    #[inline(always)]
    fn run(self) {
        // SAFETY: the value says so.
        unsafe { one_row(self.row, self.log, &self.output, &self.input) }
    }
}

/// # Safety
///
/// Nobody else touches the row of the output, nor writes the row of the input.
#[inline(always)]
unsafe fn one_row<T: StoredFloat>(row: &Walk<2>, log: bool, output: &Output<T>, input: &Input<T>) {
    let count = row.elements();
    let blocks = (0..count).step_by(BLOCK).map(|first| (first, BLOCK.min(count - first)));
    let (mut values, mut results) = (Scratch::new(), Scratch::new());

    let mut tops = [-<T::Compute as Float>::INFINITY; PARTIALS];
    for (first, len) in blocks.clone() {
        // SAFETY: passed on.
        let block = unsafe { input.read(row, first, len, &mut values) };
        combine(&mut tops, block, Float::maximum);
    }
    // The largest exponent becomes 0, so nothing overflows.
    let top = merge(tops, Float::maximum);

    let mut sums = [0.0f64; PARTIALS];
    let mut powers = [const { MaybeUninit::uninit() }; KEPT];
    let place = |first| if count <= KEPT { first } else { 0 };
    for (first, len) in blocks.clone() {
        // SAFETY: passed on.
        let block = unsafe { input.read(row, first, len, &mut values) };
        let powers = exponentials(block, top, &mut powers[place(first)..][..len]);
        combine(&mut sums, powers, |sum, power| sum + power.to_f64());
    }
    let sum = merge(sums, |a, b| a + b);

    let (log_sum, inverse) =
        (<T::Compute as Float>::from_f64(sum.ln()), <T::Compute as Float>::from_f64(1.0 / sum));
    for (first, len) in blocks {
        // SAFETY: passed on; a block is read before it is written, and all of it is written.
        unsafe {
            if log {
                let block = input.read(row, first, len, &mut values);
                output.write(row, first, len, &mut results, |results| {
                    for (result, &x) in results.iter_mut().zip(block) {
                        result.write((x - top) - log_sum);
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
                    result.write(power * inverse);
                }
            });
        }
    }
}

/// Partial results of one row: enough that they do not wait for each other. Element `i` goes to
/// partial `i % PARTIALS`, so the order depends on the length of the row alone.
const PARTIALS: usize = 32;

const _: () = assert!(BLOCK.is_multiple_of(PARTIALS));

/// Adds a block of a row, which begins at a multiple of [`PARTIALS`], to the partials.
#[inline(always)]
fn combine<C: Copy, P: Copy>(partials: &mut [P; PARTIALS], block: &[C], step: impl Fn(P, C) -> P) {
    let (groups, rest) = block.as_chunks::<PARTIALS>();
    // A copy that the compiler can keep in registers.
    let mut local = *partials;
    for group in groups {
        for (partial, &value) in local.iter_mut().zip(group) {
            *partial = step(*partial, value);
        }
    }
    for (partial, &value) in local.iter_mut().zip(rest) {
        *partial = step(*partial, value);
    }
    *partials = local;
}

/// Merges the partials of a row, in a fixed tree.
#[inline(always)]
fn merge<P: Copy>(mut partials: [P; PARTIALS], merge: impl Fn(P, P) -> P) -> P {
    let mut half = PARTIALS / 2;
    while half > 0 {
        for i in 0..half {
            partials[i] = merge(partials[i], partials[i + half]);
        }
        half /= 2;
    }
    partials[0]
}

/// `e^(x - top)` of every value.
#[inline(always)]
fn exponentials<'a, F: Float>(values: &[F], top: F, powers: &'a mut [MaybeUninit<F>]) -> &'a [F] {
    debug_assert_eq!(values.len(), powers.len());
    for (power, &x) in powers.iter_mut().zip(values) {
        power.write((x - top).exp());
    }
    // SAFETY: the loop wrote one power for each value, and there are as many.
    unsafe { powers.assume_init_ref() }
}

#[cfg(test)]
#[path = "softmax_tests.rs"]
mod tests;

//! Running sums and products. Those of floating-point elements are kept in `f64`, and rounded as they are stored.

use millstream_core::{DType, Operand, RawBuffer, f32_round_to_odd};

use crate::kernels::shared::block::{BLOCK, BlockBuffer};
use crate::kernels::shared::number::{Float, with_bits};
use crate::kernels::shared::operand::{Computed, Input, Output};
use crate::kernels::shared::parallel::{Parallel, parallel_for};
use crate::kernels::shared::walk::Walk;

/// Neighboring rows that run together when they are neighbors in memory.
const TILE: usize = 64;

/// How sums run.
#[derive(Clone, Copy)]
pub(super) struct Params {
    pub axis: usize,
    pub exclusive: bool,
    pub reverse: bool,
    pub product: bool,
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn cumsum(
    params: Params,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let dtype = dst.layout.dtype();
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        match dtype {
            DType::F64 => floats::<f64>(params, dst, src, parallel, |sum| sum),
            DType::F32 => floats::<f32>(params, dst, src, parallel, |sum| sum as f32),
            DType::F16 | DType::BF16 => {
                floats::<f32>(params, dst, src, parallel, f32_round_to_odd);
            }
            // Integers wrap around, so a sign changes no bit.
            _ => with_bits!(dtype, T => match params.product {
                false => scan::<T, T>(params, dst, src, parallel, 0, T::wrapping_add, |sum| sum),
                true => scan::<T, T>(params, dst, src, parallel, 1, T::wrapping_mul, |sum| sum),
            }),
        }
    }
}

/// The rounding of a sum and that of storing it must be one.
unsafe fn floats<C: Float + Computed>(
    params: Params,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    round: impl Fn(f64) -> C + Sync,
) {
    let add = |sum: f64, x: C| sum + x.to_f64();
    let multiply = |product: f64, x: C| product * x.to_f64();
    // SAFETY: passed on.
    unsafe {
        match params.product {
            false => scan::<C, f64>(params, dst, src, parallel, 0.0, add, round),
            true => scan::<C, f64>(params, dst, src, parallel, 1.0, multiply, round),
        }
    }
}

unsafe fn scan<C: Computed, S: Copy + Send + Sync>(
    params: Params,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    zero: S,
    add: impl Fn(S, C) -> S + Sync,
    round: impl Fn(S) -> C + Sync,
) {
    let layouts = [&dst.layout, &src.layout];
    let rows = Walk::over(layouts, (0..dst.layout.rank()).filter(|&other| other != params.axis));
    let row = Walk::over(layouts, [params.axis]);
    let count = row.elements();
    // SAFETY: passed on.
    let (output, input) = unsafe { (Output::<C>::new(dst, 0), Input::<C>::new(src, 1, dst)) };
    let one = |sum: &mut S, x: C| {
        let before = *sum;
        *sum = add(before, x);
        round(if params.exclusive { before } else { *sum })
    };
    if count == 0 {
        return;
    }
    if row.inner_stride(1) != 1 && rows.inner_stride(1) == 1 {
        // Rows side by side: a step of all of them is one run in memory.
        parallel_for(
            parallel,
            rows.elements().div_ceil(TILE),
            count.saturating_mul(TILE),
            |range| {
                let range = range.start * TILE..(range.end * TILE).min(rows.elements());
                rows.blocks(range, TILE, |start, len| {
                    let mut sums = [zero; TILE];
                    let (mut values, mut results) = (BlockBuffer::new(), BlockBuffer::new());
                    for i in 0..count {
                        let i = if params.reverse { count - 1 - i } else { i };
                        // SAFETY: rows are disjoint; a step is read before it is written, all of it.
                        unsafe {
                            let input = input.moved(row.position(1, i));
                            let output = output.moved(row.position(0, i));
                            let values = input.read(&rows, start, len, &mut values);
                            output.write(&rows, start, len, &mut results, |to| {
                                for ((to, &x), sum) in to.iter_mut().zip(values).zip(&mut sums) {
                                    to.write(one(sum, x));
                                }
                            });
                        }
                    }
                });
            },
        );
        return;
    }
    parallel_for(parallel, rows.elements(), count, |range| {
        for index in range {
            let (mut values, mut results) = (BlockBuffer::new(), BlockBuffer::new());
            let mut sum = zero;
            for done in (0..count).step_by(BLOCK) {
                let len = BLOCK.min(count - done);
                let start = if params.reverse { count - done - len } else { done };
                // SAFETY: rows are disjoint; a block is read before it is written, all of it.
                unsafe {
                    let input = input.moved(rows.position(1, index));
                    let output = output.moved(rows.position(0, index));
                    let values = input.read(&row, start, len, &mut values);
                    output.write(&row, start, len, &mut results, |to| {
                        let pairs = to.iter_mut().zip(values);
                        let step = |(to, &x): (&mut std::mem::MaybeUninit<_>, &_)| {
                            to.write(one(&mut sum, x));
                        };
                        if params.reverse {
                            pairs.rev().for_each(step)
                        } else {
                            pairs.for_each(step)
                        }
                    });
                }
            }
        }
    });
}

#[cfg(test)]
mod tests;

//! Running sums and products. Those of floating-point elements are kept in `f64`, and rounded as they are stored.

use millstream_core::{DType, Operand, RawBuffer};

use crate::kernels::shared::block::{BLOCK, Input, Output, Scratch, base};
use crate::kernels::shared::integer::Int;
use crate::kernels::shared::number::{Float, Stored, StoredFloat, with_float, with_int};
use crate::kernels::shared::parallel::{Parallel, share};
use crate::kernels::shared::walk::Walk;

/// Neighbouring rows that run together when they are neighbors in memory.
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
        if dtype.is_float() {
            with_float!(dtype, T => {
                let add = |sum: f64, x: <T as Stored>::Compute| sum + x.to_f64();
                let multiply = |sum: f64, x: <T as Stored>::Compute| sum * x.to_f64();
                let round = |sum: f64| <T as StoredFloat>::from_f64(sum).widen();
                match params.product {
                    false => scan::<T, f64>(params, dst, src, parallel, 0.0, add, round),
                    true => scan::<T, f64>(params, dst, src, parallel, 1.0, multiply, round),
                }
            });
        } else {
            with_int!(dtype, T => {
                match params.product {
                    false => scan::<T, T>(params, dst, src, parallel, T::ZERO, Int::add, |sum| sum),
                    true => scan::<T, T>(params, dst, src, parallel, T::ONE, Int::mul, |sum| sum),
                }
            });
        }
    }
}

unsafe fn scan<T: Stored, S: Copy + Send + Sync>(
    params: Params,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    zero: S,
    add: impl Fn(S, T::Compute) -> S + Sync,
    round: impl Fn(S) -> T::Compute + Sync,
) {
    let layouts = [&dst.layout, &src.layout];
    let rows = Walk::over(layouts, (0..dst.layout.rank()).filter(|&other| other != params.axis));
    let row = Walk::over(layouts, [params.axis]);
    let count = row.elements();
    // SAFETY: passed on.
    let (to, from) = unsafe { (base::<T>(dst), base::<T>(src)) };
    let (output, input) = (Output::new(to, 0), Input::new(from, 1, to));
    let one = |sum: &mut S, x: T::Compute| {
        let before = *sum;
        *sum = add(before, x);
        round(if params.exclusive { before } else { *sum })
    };
    if count == 0 {
        return;
    }
    if row.inner_stride(1) != 1 && rows.inner_stride(1) == 1 {
        // Rows side by side: a step of all of them is one run in memory.
        share(parallel, rows.elements().div_ceil(TILE), count.saturating_mul(TILE), |range| {
            let range = range.start * TILE..(range.end * TILE).min(rows.elements());
            rows.blocks(range, TILE, |start, len| {
                let mut sums = [zero; TILE];
                let (mut values, mut results) = (Scratch::new(), Scratch::new());
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
        });
        return;
    }
    share(parallel, rows.elements(), count, |range| {
        for index in range {
            let (mut values, mut results) = (Scratch::new(), Scratch::new());
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

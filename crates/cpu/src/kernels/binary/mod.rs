//! Functions of two elements.

mod float;
mod int;

#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;

use millstream_core::{BinaryOp, DType, Operand, RawBuffer};

use crate::kernels::shared::elementwise::{DenseTile, each_tile};
use crate::kernels::shared::number::{Bool, with_float, with_int};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// Applies a function to pairs of elements.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn binary(
    op: BinaryOp,
    dst: &Operand<RawBuffer>,
    a: &Operand<RawBuffer>,
    b: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let (from, to) = (a.layout.dtype(), dst.layout.dtype());
    // SAFETY: passed on; the types are those of the operands.
    unsafe { each_tile::<2, 3>(dst, [a, b], parallel, &|tile| apply(op, from, to, tile)) }
}

/// Applies a function to the pairs of a tile.
///
/// # Safety
///
/// The types are those of the tile, and the function makes the one of the other.
pub(super) unsafe fn apply(op: BinaryOp, from: DType, to: DType, tile: DenseTile<2>) {
    let compares = to == DType::Bool;
    // SAFETY: passed on. All functions fill their output.
    unsafe {
        match from {
            DType::Bool => tile.apply::<Bool, Bool>(|[a, b], to| of_bool(op, a, b, to)),
            _ if compares && from.is_float() => with_float!(from, T => {
                tile.apply::<T, Bool>(|[a, b], to| compare(op, a, b, to));
            }),
            _ if compares => with_int!(from, T => {
                tile.apply::<T, Bool>(|[a, b], to| compare(op, a, b, to));
            }),
            _ if from.is_float() => with_float!(from, T => {
                tile.apply::<T, T>(|[a, b], to| float::apply(op, a, b, to));
            }),
            _ => with_int!(from, T => {
                tile.apply::<T, T>(|[a, b], to| int::apply(op, a, b, to));
            }),
        }
    }
}

/// One function of every pair; the slices have one length.
#[inline(always)]
fn each<A: Copy, B>(a: &[A], b: &[A], to: &mut [MaybeUninit<B>], function: impl Fn(A, A) -> B) {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        to.write(function(a, b));
    }
}

fn compare<T: Copy + PartialOrd>(op: BinaryOp, a: &[T], b: &[T], to: &mut [MaybeUninit<u8>]) {
    vectorized(Compare { op, a, b, to });
}

struct Compare<'a, T> {
    op: BinaryOp,
    a: &'a [T],
    b: &'a [T],
    to: &'a mut [MaybeUninit<u8>],
}

impl<T: Copy + PartialOrd> SimdFn for Compare<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Compare { op, a, b, to } = self;
        match op {
            BinaryOp::Equal => each(a, b, to, |a, b| u8::from(a == b)),
            BinaryOp::NotEqual => each(a, b, to, |a, b| u8::from(a != b)),
            BinaryOp::Less => each(a, b, to, |a, b| u8::from(a < b)),
            BinaryOp::LessEqual => each(a, b, to, |a, b| u8::from(a <= b)),
            BinaryOp::Greater => each(a, b, to, |a, b| u8::from(a > b)),
            BinaryOp::GreaterEqual => each(a, b, to, |a, b| u8::from(a >= b)),
            other => unreachable!("{other:?} is not a comparison"),
        }
    }
}

fn of_bool(op: BinaryOp, a: &[u8], b: &[u8], to: &mut [MaybeUninit<u8>]) {
    match op {
        BinaryOp::And => each(a, b, to, |a, b| a & b),
        BinaryOp::Or => each(a, b, to, |a, b| a | b),
        BinaryOp::Xor => each(a, b, to, |a, b| a ^ b),
        _ => compare(op, a, b, to),
    }
}

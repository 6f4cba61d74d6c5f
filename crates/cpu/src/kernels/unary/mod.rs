//! Functions of one element.

mod float;
mod int;

#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;

use millstream_core::{DType, Operand, RawBuffer, UnaryOp};

use crate::kernels::shared::elementwise::{DenseTile, each_tile};
use crate::kernels::shared::number::{Bool, StoredFloat, with_float, with_int};
use crate::kernels::shared::parallel::Parallel;

/// Applies a function to each element.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn unary(
    op: UnaryOp,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let (from, to) = (src.layout.dtype(), dst.layout.dtype());
    // SAFETY: passed on; the types are those of the operands.
    unsafe { each_tile::<1, 2>(dst, [src], parallel, &|tile| apply(op, from, to, tile)) }
}

/// Applies a function to the elements of a tile.
///
/// # Safety
///
/// The types are those of the tile, and the function makes the one of the other.
pub(super) unsafe fn apply(op: UnaryOp, from: DType, to: DType, tile: DenseTile<1>) {
    // SAFETY: passed on. All functions fill their output.
    unsafe {
        if from.is_float() {
            with_float!(from, T => of_float::<T>(op, to, tile));
        } else if from.is_int() {
            with_int!(from, T => tile.apply::<T, T>(|[from], to| int::apply(op, from, to)));
        } else {
            // Of truth values there is only the negation.
            tile.apply::<Bool, Bool>(|[from], to| each(from, to, |value| value ^ 1));
        }
    }
}

unsafe fn of_float<T: StoredFloat>(op: UnaryOp, to: DType, tile: DenseTile<1>) {
    // SAFETY: passed on.
    unsafe {
        if to == DType::Bool {
            tile.apply::<T, Bool>(|[from], to| float::test(op, from, to));
        } else {
            tile.apply::<T, T>(|[from], to| float::apply(op, from, to));
        }
    }
}

/// One function of every value; the slices have one length.
#[inline(always)]
fn each<A: Copy, B>(from: &[A], to: &mut [MaybeUninit<B>], function: impl Fn(A) -> B) {
    for (to, &from) in to.iter_mut().zip(from) {
        to.write(function(from));
    }
}

//! Functions of one element.

mod float;
mod int;

#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;

use millstream_core::{DType, Operand, RawBuffer, UnaryOp};

use super::block::{Input, Output, Scratch, base, each_block};
use super::number::{Bool, Stored, StoredFloat, with_float, with_int};
use super::parallel::Parallel;
use super::walk::Walk;

/// Applies a function to each element.
///
/// # Safety
///
/// As for [`execute`](super::execute).
pub(super) unsafe fn unary(
    op: UnaryOp,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let dtype = src.layout.dtype();
    // SAFETY: passed on; the types are those of the operands. All functions fill their output.
    unsafe {
        if dtype.is_float() {
            with_float!(dtype, T => of_float::<T>(op, dst, src, parallel));
        } else if dtype.is_int() {
            with_int!(dtype, T => map::<T, T>(dst, src, parallel, |from, to| {
                int::apply(op, from, to);
            }));
        } else {
            // Of truth values there is only the negation.
            map::<Bool, Bool>(dst, src, parallel, |from, to| {
                each(from, to, |value| value ^ 1);
            });
        }
    }
}

unsafe fn of_float<T: StoredFloat>(
    op: UnaryOp,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    // SAFETY: passed on.
    unsafe {
        if dst.layout.dtype() == DType::Bool {
            map::<T, Bool>(dst, src, parallel, |from, to| float::test(op, from, to));
        } else {
            map::<T, T>(dst, src, parallel, |from, to| float::apply(op, from, to));
        }
    }
}

/// Runs a function of dense blocks over the operands.
///
/// # Safety
///
/// As for [`execute`](super::execute), and `function` fills its output.
unsafe fn map<S: Stored, D: Stored>(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    function: impl Fn(&[S::Compute], &mut [MaybeUninit<D::Compute>]) + Sync,
) {
    let walk = Walk::in_any_order([&dst.layout, &src.layout]);
    // SAFETY: passed on.
    let (to, from) = unsafe { (base::<D>(dst), base::<S>(src)) };
    let (output, input) =
        (Output::new(to, 0).of_elements(walk.elements()), Input::new(from, 1, to));
    each_block(&walk, parallel, |start, len| {
        let (mut values, mut results) = (Scratch::new(), Scratch::new());
        // SAFETY: blocks are disjoint parts of the output; an input that is the output is read
        // before the same elements are written.
        unsafe {
            let values = input.read(&walk, start, len, &mut values);
            output.write(&walk, start, len, &mut results, |block| function(values, block));
        }
    });
}

/// One function of every value; the slices have one length.
#[inline(always)]
fn each<A: Copy, B>(from: &[A], to: &mut [MaybeUninit<B>], function: impl Fn(A) -> B) {
    for (to, &from) in to.iter_mut().zip(from) {
        to.write(function(from));
    }
}

//! Functions of two elements.

mod float;
mod int;

#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;

use millstream_core::{BinaryOp, DType, Operand, RawBuffer};

use super::block::{Input, Output, Scratch, base, each_block};
use super::number::{Bool, Stored, with_float, with_int};
use super::parallel::Parallel;
use super::walk::Walk;

/// Where a command finds its operands.
struct Operands<'a> {
    dst: &'a Operand<RawBuffer>,
    a: &'a Operand<RawBuffer>,
    b: &'a Operand<RawBuffer>,
}

/// Applies a function to pairs of elements.
///
/// # Safety
///
/// As for [`execute`](super::execute).
pub(super) unsafe fn binary(
    op: BinaryOp,
    dst: &Operand<RawBuffer>,
    a: &Operand<RawBuffer>,
    b: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let dtype = a.layout.dtype();
    let operands = Operands { dst, a, b };
    let compares = dst.layout.dtype() == DType::Bool;
    // SAFETY: passed on; the types are those of the operands. All functions fill their output.
    unsafe {
        match dtype {
            DType::Bool => map::<Bool, Bool>(&operands, parallel, |a, b, to| of_bool(op, a, b, to)),
            _ if compares && dtype.is_float() => with_float!(dtype, T => {
                map::<T, Bool>(&operands, parallel, |a, b, to| compare(op, a, b, to));
            }),
            _ if compares => with_int!(dtype, T => {
                map::<T, Bool>(&operands, parallel, |a, b, to| compare(op, a, b, to));
            }),
            _ if dtype.is_float() => with_float!(dtype, T => {
                map::<T, T>(&operands, parallel, |a, b, to| float::apply(op, a, b, to));
            }),
            _ => with_int!(dtype, T => {
                map::<T, T>(&operands, parallel, |a, b, to| int::apply(op, a, b, to));
            }),
        }
    }
}

/// Runs a function of dense blocks over the operands.
///
/// # Safety
///
/// As for [`execute`](super::execute), and `function` fills its output.
unsafe fn map<S: Stored, D: Stored>(
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
    function: impl Fn(&[S::Compute], &[S::Compute], &mut [MaybeUninit<D::Compute>]) + Sync,
) {
    let &Operands { dst, a, b } = operands;
    let walk = Walk::in_any_order([&dst.layout, &a.layout, &b.layout]);
    // SAFETY: passed on.
    let (to, a, b) = unsafe { (base::<D>(dst), base::<S>(a), base::<S>(b)) };
    let output = Output::new(to, 0).of_elements(walk.elements());
    let (a, b) = (Input::new(a, 1, to), Input::new(b, 2, to));
    each_block(&walk, parallel, |start, len| {
        let (mut left, mut right, mut results) = (Scratch::new(), Scratch::new(), Scratch::new());
        // SAFETY: blocks are disjoint parts of the output; an input that is the output is read
        // before the same elements are written.
        unsafe {
            let left = a.read(&walk, start, len, &mut left);
            let right = b.read(&walk, start, len, &mut right);
            output.write(&walk, start, len, &mut results, |block| function(left, right, block));
        }
    });
}

/// One function of every pair; the slices have one length.
#[inline(always)]
fn each<A: Copy, B>(a: &[A], b: &[A], to: &mut [MaybeUninit<B>], function: impl Fn(A, A) -> B) {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        to.write(function(a, b));
    }
}

fn compare<T: Copy + PartialOrd>(op: BinaryOp, a: &[T], b: &[T], to: &mut [MaybeUninit<u8>]) {
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

fn of_bool(op: BinaryOp, a: &[u8], b: &[u8], to: &mut [MaybeUninit<u8>]) {
    match op {
        BinaryOp::And => each(a, b, to, |a, b| a & b),
        BinaryOp::Or => each(a, b, to, |a, b| a | b),
        BinaryOp::Xor => each(a, b, to, |a, b| a ^ b),
        _ => compare(op, a, b, to),
    }
}

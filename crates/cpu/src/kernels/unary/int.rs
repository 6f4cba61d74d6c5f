//! Functions of one integer.

use std::mem::MaybeUninit;

use millstream_core::UnaryOp;

use super::each;
use crate::kernels::shared::integer::Int;

/// Applies a function to a block.
pub(super) fn apply<I: Int>(op: UnaryOp, from: &[I], to: &mut [MaybeUninit<I>]) {
    match op {
        UnaryOp::Abs => each(from, to, I::abs),
        UnaryOp::Neg => each(from, to, I::negate),
        UnaryOp::Sign => each(from, to, I::sign),
        UnaryOp::Relu => each(from, to, |x| x.max(I::ZERO)),
        UnaryOp::Square => each(from, to, |x| x.mul(x)),
        UnaryOp::Not => each(from, to, I::not),
        other => unreachable!("{other:?} has no meaning for integers"),
    }
}

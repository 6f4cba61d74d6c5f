//! Functions of two integers.

use std::mem::MaybeUninit;

use millstream_core::BinaryOp;

use super::each;
use crate::kernels::shared::integer::Int;

/// Applies a function to blocks.
pub(super) fn apply<I: Int>(op: BinaryOp, a: &[I], b: &[I], to: &mut [MaybeUninit<I>]) {
    match op {
        BinaryOp::Add => each(a, b, to, I::add),
        BinaryOp::Sub => each(a, b, to, I::sub),
        BinaryOp::Mul => each(a, b, to, I::mul),
        BinaryOp::Div => each(a, b, to, I::div),
        BinaryOp::Pow => each(a, b, to, I::pow),
        BinaryOp::Min => each(a, b, to, I::min),
        BinaryOp::Max => each(a, b, to, I::max),
        BinaryOp::Mod => each(a, b, to, I::modulo),
        BinaryOp::Fmod => each(a, b, to, I::remainder),
        BinaryOp::Prelu => each(a, b, to, I::prelu),
        BinaryOp::And => each(a, b, to, I::and),
        BinaryOp::Or => each(a, b, to, I::or),
        BinaryOp::Xor => each(a, b, to, I::xor),
        BinaryOp::ShiftLeft => each(a, b, to, I::shift_left),
        BinaryOp::ShiftRight => each(a, b, to, I::shift_right),
        other => unreachable!("{other:?} has no meaning for integers"),
    }
}

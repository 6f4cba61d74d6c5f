//! Functions of two floating-point elements.

use std::mem::MaybeUninit;

use millstream_core::BinaryOp;

use super::each;
use crate::kernels::shared::number::Float;
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// Applies a function to blocks.
pub(super) fn apply<F: Float>(op: BinaryOp, a: &[F], b: &[F], to: &mut [MaybeUninit<F>]) {
    vectorized(Apply { op, a, b, to });
}

struct Apply<'a, F> {
    op: BinaryOp,
    a: &'a [F],
    b: &'a [F],
    to: &'a mut [MaybeUninit<F>],
}

impl<F: Float> SimdFn for Apply<'_, F> {
    #[inline(always)]
    fn run(self) {
        let Apply { op, a, b, to } = self;
        match op {
            BinaryOp::Add => each(a, b, to, |a, b| a + b),
            BinaryOp::Sub => each(a, b, to, |a, b| a - b),
            BinaryOp::Mul => each(a, b, to, |a, b| a * b),
            BinaryOp::Div => each(a, b, to, |a, b| a / b),
            BinaryOp::Pow => each(a, b, to, F::powf),
            BinaryOp::Min => each(a, b, to, F::minimum),
            BinaryOp::Max => each(a, b, to, F::maximum),
            BinaryOp::Mod => each(a, b, to, modulo),
            BinaryOp::Fmod => each(a, b, to, |a, b| a % b),
            BinaryOp::Atan2 => each(a, b, to, F::atan2),
            BinaryOp::Prelu => each(a, b, to, |a, b| if a < F::ZERO { b * a } else { a }),
            other => unreachable!("{other:?} does not give a number"),
        }
    }
}

/// The remainder with the sign of the divisor.
#[inline(always)]
fn modulo<F: Float>(a: F, b: F) -> F {
    let remainder = a % b;
    if remainder != F::ZERO && (remainder < F::ZERO) != (b < F::ZERO) {
        remainder + b
    } else {
        remainder
    }
}

//! Functions of one floating-point element.

use std::mem::MaybeUninit;

use millstream_core::UnaryOp;

use super::each;
use crate::kernels::shared::math::functions as f;
use crate::kernels::shared::number::Float;
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// Functions whose result has the type of their argument.
pub(super) fn apply<F: Float>(op: UnaryOp, from: &[F], to: &mut [MaybeUninit<F>]) {
    vectorized(Apply { op, from, to });
}

struct Apply<'a, F> {
    op: UnaryOp,
    from: &'a [F],
    to: &'a mut [MaybeUninit<F>],
}

impl<F: Float> SimdFn for Apply<'_, F> {
    #[inline(always)]
    fn run(self) {
        use UnaryOp::*;
        let Apply { op, from, to } = self;
        let number = F::from_f32;
        match op {
            Abs => each(from, to, F::abs),
            Neg => each(from, to, |x| -x),
            Sign => each(from, to, f::sign),
            Relu => each(from, to, f::relu),
            Exp => each(from, to, F::exp),
            Expm1 => each(from, to, F::exp_m1),
            Log => each(from, to, F::ln),
            Log1p => each(from, to, F::ln_1p),
            Log2 => each(from, to, F::log2),
            Sqrt => each(from, to, F::sqrt),
            Rsqrt => each(from, to, |x| F::ONE / x.sqrt()),
            Reciprocal => each(from, to, |x| F::ONE / x),
            Square => each(from, to, |x| x * x),
            Sin => each_limited(from, to, F::sin_of_limited, F::sin),
            Cos => each_limited(from, to, F::cos_of_limited, F::cos),
            Tan => each(from, to, F::tan),
            Asin => each(from, to, F::asin),
            Acos => each(from, to, F::acos),
            Atan => each(from, to, F::atan),
            Sinh => each(from, to, F::sinh),
            Cosh => each(from, to, F::cosh),
            Tanh => each(from, to, F::tanh),
            Asinh => each(from, to, f::asinh),
            Acosh => each(from, to, f::acosh),
            Atanh => each(from, to, f::atanh),
            Erf => each(from, to, F::erf),
            Floor => each(from, to, F::floor),
            Ceil => each(from, to, F::ceil),
            Round => each(from, to, F::round_ties_even),
            Trunc => each(from, to, F::trunc),
            Sigmoid => each(from, to, f::sigmoid),
            HardSigmoid { alpha, beta } => {
                let (alpha, beta) = (number(alpha), number(beta));
                each(from, to, |x| f::clip(alpha * x + beta, F::ZERO, F::ONE));
            }
            HardSwish => each(from, to, f::hard_swish),
            Silu => each(from, to, f::silu),
            Gelu => each(from, to, f::gelu),
            GeluTanh => each(from, to, f::gelu_tanh),
            Softplus => each(from, to, f::softplus),
            Softsign => each(from, to, |x| x / (F::ONE + x.abs())),
            Mish => each(from, to, f::mish),
            LeakyRelu { slope } => {
                let slope = number(slope);
                each(from, to, |x| f::leaky_relu(x, slope));
            }
            Elu { alpha } => {
                let alpha = number(alpha);
                each(from, to, |x| f::elu(x, alpha));
            }
            Celu { alpha } => {
                let alpha = number(alpha);
                each(from, to, |x| f::celu(x, alpha));
            }
            Selu { alpha, gamma } => {
                let (alpha, gamma) = (number(alpha), number(gamma));
                each(from, to, |x| gamma * f::elu(x, alpha));
            }
            ThresholdedRelu { alpha } => {
                let alpha = number(alpha);
                each(from, to, |x| if x <= alpha { F::ZERO } else { x });
            }
            Shrink { lambda, bias } => {
                let (lambda, bias) = (number(lambda), number(bias));
                each(from, to, |x| f::shrink(x, lambda, bias));
            }
            IsNan | IsInf { .. } | Not => unreachable!("{op:?} does not give a number"),
        }
    }
}

/// Sine or cosine: one that is vectorized, and another for the few numbers that it does not serve.
#[inline(always)]
fn each_limited<F: Float>(
    from: &[F],
    to: &mut [MaybeUninit<F>],
    limited: impl Fn(F) -> F,
    other: impl Fn(F) -> F,
) {
    each(from, to, limited);
    if from.iter().all(|x| x.abs() <= F::SINE_LIMIT) {
        return;
    }
    for (to, &x) in to.iter_mut().zip(from) {
        let is_limited = x.abs() <= F::SINE_LIMIT;
        // Also NaN.
        if !is_limited {
            to.write(other(x));
        }
    }
}

/// Functions whose result is a truth value.
pub(super) fn test<F: Float>(op: UnaryOp, from: &[F], to: &mut [MaybeUninit<u8>]) {
    match op {
        UnaryOp::IsNan => each(from, to, |x| u8::from(x.is_nan())),
        UnaryOp::IsInf { positive, negative } => each(from, to, |x| {
            u8::from((positive && x == F::INFINITY) | (negative && x == -F::INFINITY))
        }),
        other => unreachable!("{other:?} does not give a truth value"),
    }
}

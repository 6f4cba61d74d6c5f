//! Functions of one element.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use millstream_core::{DType, UnaryOp};

use super::special::{acosh, asinh, atanh, erf, sigmoid, softplus};
use super::{integer, near};
use crate::{Dense, Expected, Value, accuracy};

/// Beyond this, what a trigonometric function gives is a matter of how the argument was reduced.
const TRIGONOMETRIC_REACH: f64 = 1e4;

pub(super) fn apply(op: UnaryOp, input: &Dense) -> Vec<Expected> {
    input.values.iter().map(|value| element(op, input.dtype, *value)).collect()
}

fn element(op: UnaryOp, dtype: DType, value: Value) -> Expected {
    let truth = |holds: bool| Expected::Exact(Value::Int(i128::from(holds)));
    let x = match value {
        Value::Int(value) => return Expected::Exact(Value::Int(integer::unary(op, dtype, value))),
        Value::Float(value) => value,
    };
    match op {
        UnaryOp::IsNan => truth(x.is_nan()),
        UnaryOp::IsInf { positive, negative } => {
            truth(x.is_infinite() && if x > 0.0 { positive } else { negative })
        }
        // These two only move the sign bit.
        UnaryOp::Abs => Expected::Exact(Value::Float(x.abs())),
        UnaryOp::Neg => Expected::Exact(Value::Float(-x)),
        _ if is_open(op, x) => Expected::Any,
        _ => near(float(op, x), accuracy::unary(op, dtype, x, float(op, x))),
    }
}

/// Whether the meaning of the function leaves the result at `x` open: limits of the form `∞ · 0` and
/// `∞ / ∞`, comparisons with NaN, overflow on the way, and trigonometric functions far out.
fn is_open(op: UnaryOp, x: f64) -> bool {
    use UnaryOp::*;
    match op {
        // As it is written, the formula multiplies by six before it divides.
        HardSwish => x == f64::NEG_INFINITY || x.is_finite() && x.abs() > 1e37,
        Silu | Gelu | GeluTanh | Mish => x == f64::NEG_INFINITY,
        Softsign => x.is_infinite(),
        ThresholdedRelu { .. } | Shrink { .. } => x.is_nan(),
        Sin | Cos | Tan => x.is_finite() && x.abs() > TRIGONOMETRIC_REACH,
        _ => false,
    }
}

/// The function in `f64`.
pub(super) fn float(op: UnaryOp, x: f64) -> f64 {
    use UnaryOp::*;
    match op {
        Abs => x.abs(),
        Neg => -x,
        Sign if x == 0.0 || x.is_nan() => x,
        Sign => 1f64.copysign(x),
        Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        Exp => x.exp(),
        Expm1 => x.exp_m1(),
        Log => x.ln(),
        Log1p => x.ln_1p(),
        Log2 => x.log2(),
        Sqrt => x.sqrt(),
        Rsqrt => 1.0 / x.sqrt(),
        Reciprocal => 1.0 / x,
        Square => x * x,
        Sin => x.sin(),
        Cos => x.cos(),
        Tan => x.tan(),
        Asin => x.asin(),
        Acos => x.acos(),
        Atan => x.atan(),
        Sinh => x.sinh(),
        Cosh => x.cosh(),
        Tanh => x.tanh(),
        Asinh => asinh(x),
        Acosh => acosh(x),
        Atanh => atanh(x),
        Erf => erf(x),
        Floor => x.floor(),
        Ceil => x.ceil(),
        Round => x.round_ties_even(),
        Trunc => x.trunc(),
        Sigmoid => sigmoid(x),
        _ => activation(op, x),
    }
}

fn activation(op: UnaryOp, x: f64) -> f64 {
    use UnaryOp::*;
    // `f64::max` and `f64::min` drop a NaN, which has to come through.
    if x.is_nan() {
        return x;
    }
    match op {
        HardSigmoid { alpha, beta } => (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0),
        HardSwish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        Silu => x * sigmoid(x),
        Gelu => 0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2)),
        GeluTanh => {
            // √(2/π) is √2 / 2 · 2/√π.
            let inner = SQRT_2 / 2.0 * FRAC_2_SQRT_PI * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        Softplus => softplus(x),
        Softsign => x / (1.0 + x.abs()),
        Mish => x * softplus(x).tanh(),
        LeakyRelu { slope } => {
            if x < 0.0 {
                f64::from(slope) * x
            } else {
                x
            }
        }
        Elu { alpha } => {
            if x < 0.0 {
                f64::from(alpha) * x.exp_m1()
            } else {
                x
            }
        }
        Celu { alpha } => {
            let alpha = f64::from(alpha);
            if x < 0.0 { alpha * (x / alpha).exp_m1() } else { x }
        }
        Selu { alpha, gamma } => {
            f64::from(gamma) * if x < 0.0 { f64::from(alpha) * x.exp_m1() } else { x }
        }
        ThresholdedRelu { alpha } => {
            if x > f64::from(alpha) {
                x
            } else {
                0.0
            }
        }
        Shrink { lambda, .. } if x.abs() <= f64::from(lambda) => 0.0,
        Shrink { bias, .. } => x - f64::from(bias) * x.signum(),
        other => panic!("{other:?} is not a function of one number"),
    }
}

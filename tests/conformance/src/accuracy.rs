//! How far from the right answer a device may be. All bounds of the suite are here.
//!
//! A device computes `f32`, `f16` and `bf16` in `f32` and rounds once as it stores, so their bounds
//! are those of `f32`; [`Expected::Near`](crate::Expected::Near) adds the last rounding. Integers,
//! `bool` and copies are exact and have no bound here.
//!
//! | what | bound before the last rounding |
//! |---|---|
//! | `+ - ×`, square, min, max, rounding to integers, remainders | none: correctly rounded |
//! | `÷`, square root and what needs one more rounding | 4 units, relative |
//! | elementary functions | 34 units (2e-6 for `f32`), relative |
//! | logarithm, sine, cosine, inverse hyperbolics | and 4 to 16 units, absolute, near their zeros |
//! | activations made of several functions | and 16 units of `1 + min(abs x, 10)`, absolute |
//! | power | 34 units of `1 + abs(b ln a)`, relative |
//! | sums of `n` | `8 + 2 √n` units of the sum of magnitudes |
//! | products of `n` | `8 + 2 n` units, relative |
//!
//! A unit is 2⁻²⁴ for the types computed in `f32` and 1e-14 for `f64`, where the reference itself is
//! no better. Results below the smallest normal number may be flushed to zero.

use millstream_core::{Activation, BinaryOp, DType, UnaryOp};

/// The relative error of one operation in the type that a device computes in.
pub fn unit(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1e-14 } else { 2f64.powi(-24) }
}

/// The smallest normal number of the type that a device computes in: results below it may be lost.
pub fn smallest(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) }
}

/// The bound of an elementary function.
pub fn elementary(dtype: DType, value: f64) -> f64 {
    34.0 * unit(dtype) * value.abs() + smallest(dtype)
}

fn few_roundings(dtype: DType, magnitude: f64) -> f64 {
    4.0 * unit(dtype) * magnitude.abs() + smallest(dtype)
}

fn composed(dtype: DType, x: f64, value: f64) -> f64 {
    elementary(dtype, value) + 16.0 * unit(dtype) * (1.0 + x.abs().min(10.0))
}

/// The bound of a function of one element.
pub fn unary(op: UnaryOp, dtype: DType, x: f64, value: f64) -> f64 {
    use UnaryOp::*;
    let near_zeros = |units: f64| elementary(dtype, value) + units * unit(dtype);
    match op {
        Abs | Neg | Sign | Relu | Floor | Ceil | Round | Trunc | ThresholdedRelu { .. } => 0.0,
        Square => smallest(dtype),
        Sqrt | Reciprocal | LeakyRelu { .. } | Softsign => few_roundings(dtype, value),
        Shrink { bias, .. } => few_roundings(dtype, x.abs() + f64::from(bias).abs()),
        Rsqrt | Exp | Expm1 | Log1p | Asin | Atan | Sinh | Cosh | Tanh | Atanh | Erf | Sigmoid => {
            elementary(dtype, value)
        }
        Log | Log2 | Sin | Cos => near_zeros(4.0),
        Acos | Asinh | Acosh => near_zeros(16.0),
        // Near a pole a step of the input is a leap of the output.
        Tan => elementary(dtype, value) + 4.0 * unit(dtype) * (1.0 + value * value),
        _ => composed(dtype, x, value),
    }
}

/// The bound of a function of two elements.
pub fn binary(op: BinaryOp, dtype: DType, a: f64, b: f64, value: f64) -> f64 {
    use BinaryOp::*;
    match op {
        Add | Sub | Mul => smallest(dtype),
        Div | Prelu | Mod => few_roundings(dtype, value),
        Pow => {
            let exponent = (b * a.abs().ln()).abs();
            let stretch = if exponent.is_finite() { exponent } else { 0.0 };
            elementary(dtype, value) * (1.0 + stretch)
        }
        Atan2 => elementary(dtype, value),
        _ => 0.0,
    }
}

/// The bound of a sum of `count` terms whose absolute values sum to `magnitude`.
pub fn sum(dtype: DType, count: usize, magnitude: f64) -> f64 {
    (8.0 + 2.0 * (count as f64).sqrt()) * unit(dtype) * magnitude + smallest(dtype)
}

/// The bound of a product of `count` factors.
pub fn product(dtype: DType, count: usize, value: f64) -> f64 {
    (8.0 + 2.0 * count as f64) * unit(dtype) * value.abs() + smallest(dtype)
}

/// The bound of an activation whose input `x` may itself be off by `error`.
pub fn activation(kind: Activation, dtype: DType, x: f64, value: f64, error: f64) -> f64 {
    use Activation::*;
    match kind {
        None | Relu | Clip { .. } => error,
        LeakyRelu { slope } => {
            error * f64::from(slope).abs().max(1.0) + few_roundings(dtype, value)
        }
        ScaledHardSwish { scale, shift } => {
            let (scale, shift) = (f64::from(scale), f64::from(shift));
            let swish = composed(dtype, x, value - shift) + few_roundings(dtype, shift);
            scale.abs().max(1.0) * (1.5 * error + swish)
        }
        // None of the others is steeper than 1.5 anywhere.
        _ => 1.5 * error + composed(dtype, x, value),
    }
}

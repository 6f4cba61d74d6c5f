//! Functions that the standard library lacks, or has in a form that loses digits.

use std::f64::consts::{LN_2, PI};

/// The error function, good to 1e-14.
///
/// The series `2/√π · e^(-x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!` has no negative terms, so nothing cancels;
/// beyond 6 the result is 1 to all digits.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let distance = x.abs();
    if distance >= 6.0 {
        return 1f64.copysign(x);
    }
    let (mut term, mut total, mut n) = (distance, distance, 0.0);
    while term > total * 1e-18 {
        n += 1.0;
        term *= 2.0 * distance * distance / (2.0 * n + 1.0);
        total += term;
    }
    (2.0 / PI.sqrt() * (-distance * distance).exp() * total).copysign(x)
}

/// The inverse of `sinh`, also where a square would overflow.
pub(super) fn asinh(x: f64) -> f64 {
    let distance = x.abs();
    let result = if distance > 1e10 {
        distance.ln() + LN_2
    } else {
        let square = distance * distance;
        (distance + square / (1.0 + (1.0 + square).sqrt())).ln_1p()
    };
    result.copysign(x)
}

/// The inverse of `cosh`, also next to 1.
pub(super) fn acosh(x: f64) -> f64 {
    if x < 1.0 {
        return f64::NAN;
    }
    if x > 1e10 {
        return x.ln() + LN_2;
    }
    let above = x - 1.0;
    (above + (above * (above + 2.0)).sqrt()).ln_1p()
}

/// The inverse of `tanh`.
pub(super) fn atanh(x: f64) -> f64 {
    0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p().copysign(x)
}

/// `log(1 + eˣ)`, without overflow.
pub(super) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `1 / (1 + e⁻ˣ)`.
pub(super) fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

#[cfg(test)]
mod tests;

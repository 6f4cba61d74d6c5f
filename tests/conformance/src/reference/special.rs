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
mod tests {
    use super::*;

    #[test]
    fn erf_agrees_with_tables() {
        // Values to 17 digits.
        let table = [
            (0.0, 0.0),
            (1e-10, 1.128_379_167_095_512_6e-10),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (3.0, 0.999_977_909_503_001_4),
            (5.0, 0.999_999_999_998_462_5),
        ];
        for (x, value) in table {
            assert!((erf(x) - value).abs() <= 1e-14 * value, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert_eq!(erf(f64::INFINITY), 1.0);
        assert!(erf(f64::NAN).is_nan());
    }

    #[test]
    fn inverse_hyperbolics_undo_the_hyperbolics() {
        for x in [1e-8, 0.01, 0.7, 3.0, 15.0, 40.0] {
            assert!((asinh(f64::sinh(x)) - x).abs() <= 1e-13 * x, "asinh {x}");
            assert!((atanh(f64::tanh(x.min(3.0))) - x.min(3.0)).abs() <= 1e-12, "atanh {x}");
        }
        for x in [0.01, 0.7, 3.0, 15.0, 40.0] {
            assert!((acosh(f64::cosh(x)) - x).abs() <= 1e-11, "acosh {x}");
        }
        assert!((asinh(f64::MAX) - 710.475_860_073_943_9).abs() < 1e-10);
        assert!(acosh(0.5).is_nan() && acosh(f64::MIN).is_nan());
        assert!(atanh(2.0).is_nan() && atanh(-1.0) == f64::NEG_INFINITY);
    }
}

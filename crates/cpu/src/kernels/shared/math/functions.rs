//! Activations and other compositions, for either floating-point type.

use std::f64::consts::{LN_2, PI};

use super::Float;

#[inline(always)]
pub fn relu<F: Float>(x: F) -> F {
    // NaN passes through.
    if x <= F::ZERO { F::ZERO } else { x }
}

#[inline(always)]
pub fn sigmoid<F: Float>(x: F) -> F {
    F::ONE / (F::ONE + (-x).exp())
}

#[inline(always)]
pub fn silu<F: Float>(x: F) -> F {
    x / (F::ONE + (-x).exp())
}

#[inline(always)]
pub fn gelu<F: Float>(x: F) -> F {
    x.gelu()
}

#[inline(always)]
pub fn gelu_tanh<F: Float>(x: F) -> F {
    let half = F::from_f32(0.5);
    let inner = F::from_f64((2.0 / PI).sqrt()) * (x + F::from_f64(0.044_715) * x * x * x);
    half * x * (F::ONE + inner.tanh())
}

#[inline(always)]
pub fn hard_swish<F: Float>(x: F) -> F {
    let six = F::from_f32(6.0);
    x * clip(x + F::from_f32(3.0), F::ZERO, six) / six
}

#[inline(always)]
pub fn leaky_relu<F: Float>(x: F, slope: F) -> F {
    if x < F::ZERO { slope * x } else { x }
}

/// From here on `ln 2x` is all of `asinh x` and `acosh x`, in both types, and squares may overflow.
const LARGE: f32 = (1u32 << 30) as f32;

#[inline(always)]
pub fn asinh<F: Float>(x: F) -> F {
    let a = x.abs();
    let result = if a > F::from_f32(LARGE) {
        a.ln() + F::from_f64(LN_2)
    } else {
        (a + a * a / (F::ONE + (a * a + F::ONE).sqrt())).ln_1p()
    };
    result.copysign(x)
}

#[inline(always)]
pub fn acosh<F: Float>(x: F) -> F {
    if x > F::from_f32(LARGE) {
        return x.ln() + F::from_f64(LN_2);
    }
    let above = x - F::ONE;
    // Two roots, so that the product of two negative numbers gives NaN.
    (above + above.sqrt() * (x + F::ONE).sqrt()).ln_1p()
}

#[inline(always)]
pub fn atanh<F: Float>(x: F) -> F {
    // Of the absolute value: near -1 the formula would lose all digits.
    let a = x.abs();
    let result = F::from_f32(0.5) * ((a + a) / (F::ONE - a)).ln_1p();
    result.copysign(x)
}

/// `min(max(x, min), max)`; NaN passes through.
#[inline(always)]
pub fn clip<F: Float>(x: F, min: F, max: F) -> F {
    let x = if x < min { min } else { x };
    if x > max { max } else { x }
}

#[inline(always)]
pub fn sign<F: Float>(x: F) -> F {
    if x > F::ZERO {
        F::ONE
    } else if x < F::ZERO {
        -F::ONE
    } else {
        // Zero keeps its sign, NaN passes through.
        x
    }
}

/// `log(1 + eˣ)` without overflow.
#[inline(always)]
pub fn softplus<F: Float>(x: F) -> F {
    relu(x) + (-x.abs()).exp().ln_1p()
}

/// `x · tanh(softplus(x))`.
#[inline(always)]
pub fn mish<F: Float>(x: F) -> F {
    // With e = eˣ, tanh(log(1 + e)) = n / (n + 2) for n = e (e + 2). Far right it is 1.
    let e = x.exp();
    let n = e * (e + F::ONE + F::ONE);
    if x > F::from_f32(20.0) { x } else { x * (n / (n + F::ONE + F::ONE)) }
}

#[inline(always)]
pub fn elu<F: Float>(x: F, alpha: F) -> F {
    if x < F::ZERO { alpha * x.exp_m1() } else { x }
}

#[inline(always)]
pub fn celu<F: Float>(x: F, alpha: F) -> F {
    relu(x) + (alpha * (x / alpha).exp_m1()).minimum(F::ZERO)
}

#[inline(always)]
pub fn shrink<F: Float>(x: F, lambda: F, bias: F) -> F {
    if x < -lambda {
        x + bias
    } else if x > lambda {
        x - bias
    } else if x.is_nan() {
        x
    } else {
        F::ZERO
    }
}

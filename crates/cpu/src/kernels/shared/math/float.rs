//! The two types that floating-point kernels compute in.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Rem, Sub};

use super::{erf, exp_nonpositive, exponential, sine};

/// `f32` or `f64`.
pub(crate) trait Float:
    Copy
    + Debug
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + Neg<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
    const INFINITY: Self;
    /// Sizes up to which [`sin_of_limited`](Self::sin_of_limited) and [`cos_of_limited`](Self::cos_of_limited) are accurate.
    const SINE_LIMIT: Self;

    fn from_f32(value: f32) -> Self;
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
    fn exp(self) -> Self;
    /// `eˣ` for a number that is not above 0, 0 where it would be subnormal.
    fn exp_nonpositive(self) -> Self;
    fn tanh(self) -> Self;
    fn erf(self) -> Self;
    fn gelu(self) -> Self;
    fn abs(self) -> Self;
    fn sqrt(self) -> Self;
    fn exp_m1(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn log2(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    /// `sin x`, without a branch where that is faster.
    fn sin_of_limited(self) -> Self;
    fn cos_of_limited(self) -> Self;
    fn tan(self) -> Self;
    fn asin(self) -> Self;
    fn acos(self) -> Self;
    fn atan(self) -> Self;
    fn sinh(self) -> Self;
    fn cosh(self) -> Self;
    fn copysign(self, sign: Self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round_ties_even(self) -> Self;
    fn trunc(self) -> Self;
    fn powf(self, exponent: Self) -> Self;
    fn atan2(self, other: Self) -> Self;
    fn mul_add(self, by: Self, plus: Self) -> Self;

    #[inline(always)]
    #[allow(clippy::eq_op, reason = "NaN is the one value that differs from itself")]
    fn is_nan(self) -> bool {
        self != self
    }

    /// The larger; NaN if either is NaN.
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        if self > other || self.is_nan() { self } else { other }
    }

    /// The smaller; NaN if either is NaN.
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        if self < other || self.is_nan() { self } else { other }
    }
}

macro_rules! float {
    ($type:ident, exp: $exp:path, exp_nonpositive: $exp_nonpositive:path, tanh: $tanh:path, erf: $erf:path,
        gelu: $gelu:path, sin: $sin:path, cos: $cos:path, sine_limit: $sine_limit:expr) => {
        impl Float for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const INFINITY: Self = $type::INFINITY;
            const SINE_LIMIT: Self = $sine_limit;

            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                $type::from(value)
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $type
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }

            #[inline(always)]
            fn exp_nonpositive(self) -> Self {
                $exp_nonpositive(self)
            }

            #[inline(always)]
            fn tanh(self) -> Self {
                $tanh(self)
            }

            #[inline(always)]
            fn erf(self) -> Self {
                $erf(self)
            }

            #[inline(always)]
            fn gelu(self) -> Self {
                $gelu(self)
            }

            #[inline(always)]
            fn sin_of_limited(self) -> Self {
                $sin(self)
            }

            #[inline(always)]
            fn cos_of_limited(self) -> Self {
                $cos(self)
            }

            float!(@same $type: abs, sqrt, exp_m1, ln, ln_1p, log2, sin, cos, tan, asin, acos, atan,
                sinh, cosh, floor, ceil, round_ties_even, trunc);

            #[inline(always)]
            fn powf(self, exponent: Self) -> Self {
                $type::powf(self, exponent)
            }

            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                $type::copysign(self, sign)
            }

            #[inline(always)]
            fn atan2(self, other: Self) -> Self {
                $type::atan2(self, other)
            }

            #[inline(always)]
            fn mul_add(self, by: Self, plus: Self) -> Self {
                $type::mul_add(self, by, plus)
            }
        }
    };
    (@same $type:ident: $($name:ident),*) => {
        $(
            #[inline(always)]
            fn $name(self) -> Self {
                $type::$name(self)
            }
        )*
    };
}

float!(f32, exp: exponential::exp, exp_nonpositive: exp_nonpositive::exp, tanh: exponential::tanh, erf: erf::erf_f32,
    gelu: erf::gelu_f32, sin: sine::sin, cos: sine::cos, sine_limit: sine::LIMIT);
float!(f64, exp: f64::exp, exp_nonpositive: f64::exp, tanh: f64::tanh, erf: erf::erf_f64, gelu: erf::gelu_f64,
    sin: f64::sin, cos: f64::cos, sine_limit: f64::INFINITY);

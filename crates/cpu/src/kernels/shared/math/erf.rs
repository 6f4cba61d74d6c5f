//! The error function.

use std::f64::consts::FRAC_2_SQRT_PI;

use super::exponential::exp;
use super::select;

/// `erf x` with a relative error below 2e-7.
#[inline(always)]
pub(super) fn erf_f32(x: f32) -> f32 {
    let size = x.abs();
    // Below 0.925: x + x · P(x²), where P is fitted to erf(x)/x - 1.
    let s = x * x;
    let small = 0.128_379_17
        + s * (-0.376_126_33
            + s * (0.112_836_94
                + s * (-0.026_859_265
                    + s * (5.200_648_9e-3 + s * (-8.137_877e-4 + s * 8.348_037e-5)))));
    // Above: 1 - exp(-(t + t · Q(t))), where Q is fitted to (-ln erfc(t))/t - 1 up to 4, where erf
    // rounds to 1.
    let t = if size > 4.0 { 4.0 } else { size };
    let large = 0.128_888_77
        + t * (0.634_194_74
            + t * (0.107_792_23
                + t * (-0.025_093_435
                    + t * (4.284_392_4e-3
                        + t * (-4.940_896e-4 + t * (3.376_522_5e-5 - t * 1.011_845_2e-6))))));
    let large = 1.0 - exp(-(t + t * large));
    select(size < 0.925, x + x * small, large.copysign(x))
}

/// `x Φ(x)`, where Φ is the normal distribution, with an absolute error below 4e-8 and a unit in the
/// last place; for positive `x` that is also the relative error.
#[inline(always)]
pub(super) fn gelu_f32(x: f32) -> f32 {
    // x Φ(x) = max(x, 0) - |x|/2 · erfc(|x|/√2), in which nothing cancels, and erfc(a/√2) is
    // 2^(a P(a)) with P fitted up to where it no longer counts. Terms are added in pairs, so that they
    // need not all wait for each other.
    const END: f32 = 5.75;
    let size = x.abs();
    let a = if size > END { END } else { size };
    let b = a * a;
    let low =
        b.mul_add(a.mul_add(7.245_898_5e-3, -0.052_627_9), a.mul_add(-0.459_162_06, -1.151_111));
    let high = b.mul_add(
        a.mul_add(-1.898_894_2e-6, 2.801_905_5e-5),
        a.mul_add(-1.312_976e-4, -2.724_772_6e-4),
    );
    let exponent = a * (b * b).mul_add(high, low);
    // The integer part moves to the low bits of the significand, less one for the half; the rest lies
    // between -½ and ½.
    const SHIFT: f32 = 12_582_911.0;
    let shifted = exponent + SHIFT;
    let f = exponent - (shifted - SHIFT);
    let g = f * f;
    let high = g.mul_add(1.535_335_9e-4, f.mul_add(1.339_887_9e-3, 9.618_437e-3));
    let high = g.mul_add(high, f.mul_add(0.055_503_325, 0.240_226_48));
    let power = g.mul_add(high, f.mul_add(std::f32::consts::LN_2, 1.0));
    let half = f32::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 23));
    let positive = if x <= 0.0 { 0.0 } else { x };
    a.mul_add(-select(size > END, 0.0, half), positive)
}

/// `x Φ(x)` from the error function.
#[inline(always)]
pub(super) fn gelu_f64(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return 0.0;
    }
    0.5 * x * (1.0 + erf_f64(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// `erf x` with a relative error of about 1e-15.
pub(super) fn erf_f64(x: f64) -> f64 {
    let size = x.abs();
    if size.is_nan() {
        x
    } else if size < 2.25 {
        series(x)
    } else if size < 6.0 {
        (1.0 - complement(size)).copysign(x)
    } else {
        // The complement is below half a unit in the last place of 1.
        1f64.copysign(x)
    }
}

/// `2/√π e^{-x²} Σ 2ⁿ x²ⁿ⁺¹ / (1·3·…·(2n+1))`. All terms have one sign, so nothing cancels.
fn series(x: f64) -> f64 {
    let square = x * x;
    let (mut term, mut sum) = (x, x);
    let mut divisor = 1.0;
    while term.abs() > sum.abs() * 1e-17 {
        divisor += 2.0;
        term *= 2.0 * square / divisor;
        sum += term;
    }
    FRAC_2_SQRT_PI * (-square).exp() * sum
}

/// `erfc x` for `x` of at least 2.25, by its continued fraction
/// `e^{-x²}/√π · 1/(x + ½/(x + 1/(x + ³⁄₂/(x + …))))`, which with so many terms is good to 1e-14 there.
fn complement(x: f64) -> f64 {
    const TERMS: u32 = 60;
    let tail = (1..=TERMS).rev().fold(x, |tail, n| x + 0.5 * f64::from(n) / tail);
    0.5 * FRAC_2_SQRT_PI * (-x * x).exp() / tail
}

#[cfg(test)]
mod tests;

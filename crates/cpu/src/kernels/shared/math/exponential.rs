//! The exponential function and the hyperbolic tangent of `f32`.

use super::select;

/// `eˣ`, within 2 units in the last place.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Beyond these limits the result is infinite or 0; NaN passes through.
    let x = x.clamp(-104.0, 89.0);
    // x = n ln 2 + r with |r| at most ln 2 / 2. Adding this constant moves the integer part of the
    // product to the low bits of the significand, which rounds it without an instruction for it.
    const SHIFT: f32 = 12_582_912.0;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    // ln 2 in two parts, of which the second is what the first lacks.
    let r = n.mul_add(-1.428_606_8e-6, n.mul_add(-0.693_145_75, x));
    // 1 + r + r² P(r), where P is fitted; what is left out is below 2⁻²⁸. Terms are added in pairs,
    // so that they need not all wait for each other.
    let s = r * r;
    let (low, high) = (r.mul_add(0.166_665_2, 0.499_999_93), r.mul_add(8.368_718e-3, 0.041_668_39));
    let pairs = s.mul_add(s.mul_add(1.381_458_6e-3, high), low);
    let power = s.mul_add(pairs, r) + 1.0;
    // 2ⁿ in two factors, since n may lie outside the exponents of normal numbers. The first is added
    // to the exponent.
    let n = shifted.to_bits().wrapping_sub(SHIFT.to_bits()) as i32;
    let half = n >> 1;
    let first = f32::from_bits(power.to_bits().wrapping_add((half as u32) << 23));
    first * f32::from_bits((n.wrapping_sub(half).wrapping_add(127) as u32) << 23)
}

/// `tanh x`, within 3 units in the last place.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let size = x.abs();
    let large = 1.0 - 2.0 / (exp(size + size) + 1.0);
    // Near 0 the difference above cancels; the odd polynomial is the one of the Cephes library.
    let t = x * x;
    let small = t.mul_add(-5.704_988_7e-3, 2.063_909e-2);
    let small = t.mul_add(small, -5.373_971_5e-2);
    let small = t.mul_add(small, 1.333_144_2e-1);
    let small = t.mul_add(small, -3.333_328e-1);
    select(size < 0.625, (x * t).mul_add(small, x), large.copysign(x))
}

#[cfg(test)]
mod tests;

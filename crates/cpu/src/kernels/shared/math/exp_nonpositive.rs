//! Powers of e for softmaxes.

use super::select;

/// `eˣ` for `x` not above 0, within 2 units in the last place; 0 where it would be subnormal.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const LEAST: f32 = -87.0;
    // As in the plain function: x = n ln 2 + r, with n moved to the low bits of the significand.
    const SHIFT: f32 = 12_582_912.0;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = n.mul_add(-0.693_145_75, x);
    let r = n.mul_add(-1.428_606_8e-6, r);
    // 1 + r + r² P(r), with the polynomial of the Cephes library.
    let p = 1.987_569_1e-4f32.mul_add(r, 1.398_199_9e-3);
    let p = p.mul_add(r, 8.333_452e-3);
    let p = p.mul_add(r, 4.166_579_6e-2);
    let p = p.mul_add(r, 1.666_666_5e-1);
    let p = p.mul_add(r, 0.5);
    let power = p.mul_add(r * r, r) + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(SHIFT.to_bits()).wrapping_add(127) << 23;
    // Not a number stays so: the comparison is false, and the product keeps it.
    select(x < LEAST, 0.0, power * f32::from_bits(exponent))
}

#[cfg(test)]
mod tests;

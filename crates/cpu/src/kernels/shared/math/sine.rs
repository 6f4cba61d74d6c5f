//! Sine and cosine of `f32`, computed in `f64`.

/// Sizes up to which [`sin`] and [`cos`] are accurate. Quarter turns are counted exactly far beyond it.
pub(crate) const LIMIT: f32 = (1u32 << 30) as f32;

/// `sin x` for a number of at most [`LIMIT`], within 1 unit in the last place.
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    sine_ahead(x, 0)
}

/// `cos x` for a number of at most [`LIMIT`], within 1 unit in the last place.
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    sine_ahead(x, 1)
}

/// The sine of `x` and so many quarter turns.
#[inline(always)]
fn sine_ahead(x: f32, quarters: u64) -> f32 {
    let x = f64::from(x);
    // x = n π / 2 + r with |r| at most π / 4. Adding this constant moves n to the low bits of the significand.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let shifted = x.mul_add(std::f64::consts::FRAC_2_PI, SHIFT);
    let n = shifted - SHIFT;
    // π / 2 in two parts, of which the second is what the first lacks.
    let r = n.mul_add(-6.123_233_995_736_766e-17, n.mul_add(-std::f64::consts::FRAC_PI_2, x));
    // Taylor's series; what is left out is below 2⁻²⁸ of the result.
    let t = r * r;
    let sine = t.mul_add(1.0 / 362_880.0, -1.0 / 5_040.0);
    let sine = t.mul_add(sine, 1.0 / 120.0);
    let sine = t.mul_add(sine, -1.0 / 6.0);
    // So that zero keeps its sign.
    let sine = r * t.mul_add(sine, 1.0);
    let cosine = t.mul_add(-1.0 / 3_628_800.0, 1.0 / 40_320.0);
    let cosine = t.mul_add(cosine, -1.0 / 720.0);
    let cosine = t.mul_add(cosine, 1.0 / 24.0);
    let cosine = t.mul_add(cosine, -0.5);
    let cosine = t.mul_add(cosine, 1.0);
    // Without a branch, so that loops are vectorized.
    let quarters = shifted.to_bits().wrapping_add(quarters);
    let is_cosine = (quarters & 1).wrapping_neg();
    let bits = cosine.to_bits() & is_cosine | sine.to_bits() & !is_cosine;
    f64::from_bits(bits ^ ((quarters & 2) << 62)) as f32
}

#[cfg(test)]
mod tests;

//! Integers that are interpolated as floating-point numbers.

use crate::kernels::shared::number::Float;

/// How near an integer a number counts as that, relative to its size.
const NEAR: f64 = 1.0 / (1 << 20) as f64;

/// A number whose fraction is cut off when it is stored: what is near an integer is that.
#[inline(always)]
pub(super) fn to_integer<F: Float>(value: F) -> F {
    let integer = value.round_ties_even();
    let near = (value - integer).abs() <= value.abs() * F::from_f64(NEAR);
    if near { integer } else { value }
}

#[cfg(test)]
mod tests;

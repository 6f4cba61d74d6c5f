//! Rounding to the 16-bit types once, not twice.

use half::{bf16, f16};

/// The nearest `f16`, ties to even. (The `half` crate's own conversion rounds to `f32` first.)
#[inline]
pub fn f16_from_f64(value: f64) -> f16 {
    f16::from_f32(f32_round_to_odd(value))
}

/// The nearest `bf16`, ties to even. (The `half` crate's own conversion cuts bits off first.)
#[inline]
pub fn bf16_from_f64(value: f64) -> bf16 {
    bf16::from_f32(f32_round_to_odd(value))
}

/// Rounds to `f32` such that a further rounding to a type of at most 22 significant bits gives what
/// one rounding from `f64` gives: an inexact result takes the neighbor whose last bit is set, which
/// keeps the memory of what was cut off.
#[inline]
pub fn f32_round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    let bits = nearest.to_bits();
    if back == value || value.is_nan() || bits & 1 == 1 {
        nearest
    } else if back.abs() > value.abs() {
        f32::from_bits(bits - 1)
    } else {
        f32::from_bits(bits + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_to_odd_avoids_double_rounding() {
        // Just above the middle between two neighbors of f16: two roundings would go down.
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f16_from_f64(above).to_f64(), 1.0 + 2f64.powi(-10));
        assert_eq!(f16_from_f64(-above).to_f64(), -1.0 - 2f64.powi(-10));
        let above = 1.0 + 2f64.powi(-8) + 2f64.powi(-50);
        assert_eq!(bf16_from_f64(above).to_f64(), 1.0 + 2f64.powi(-7));
        let tie = 1.0 + 2f64.powi(-11);
        assert_eq!(f16_from_f64(tie).to_f64(), 1.0);
    }

    #[test]
    fn rounding_to_odd_keeps_special_values() {
        assert!(f32_round_to_odd(f64::NAN).is_nan());
        assert_eq!(f32_round_to_odd(f64::NEG_INFINITY), f32::NEG_INFINITY);
        assert_eq!(f32_round_to_odd(-0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(f16_from_f64(1e300), f16::INFINITY);
        assert_eq!(bf16_from_f64(1e39), bf16::INFINITY);
        assert_eq!(f16_from_f64(1e-300).to_bits(), 0);
    }
}

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

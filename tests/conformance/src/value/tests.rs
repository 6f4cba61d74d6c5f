use super::*;

#[test]
fn rounding_agrees_with_the_language_for_f32() {
    let values = [1.0 / 3.0, 1e-40, -1.4e-45, 7e-46, 3.5e38, f64::from(f32::MAX), 1e300, -0.0];
    for value in values {
        assert_eq!(round_to(DType::F32, value), f64::from(value as f32), "{value}");
    }
}

#[test]
fn rounding_happens_once() {
    // Half of a step of f16 above 1, and a little more: f32 would lose the little.
    let above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(round_to(DType::F16, above_tie), 1.0 + 2f64.powi(-10));
    assert_eq!(round_to(DType::F16, 1.0 + 2f64.powi(-11)), 1.0);
    assert_eq!(round_to(DType::F16, 65519.9), 65504.0);
    assert_eq!(round_to(DType::F16, 65520.0), f64::INFINITY);
    assert_eq!(round_to(DType::F16, 2f64.powi(-25)), 0.0);
}

#[test]
fn integers_round_once() {
    for value in [i64::MAX, i64::MIN, (1 << 24) + 1, (1 << 53) + 1, -((1 << 25) + 3)] {
        assert_eq!(round_int_to(DType::F32, value.into()), f64::from(value as f32), "{value}");
        assert_eq!(round_int_to(DType::F64, value.into()), value as f64, "{value}");
    }
    let above_tie = (1 << 60) + (1 << 52) + 1;
    assert_eq!(round_int_to(DType::BF16, above_tie), 2f64.powi(60) + 2f64.powi(53));
    assert_eq!(round_int_to(DType::F16, 65520), f64::INFINITY);
}

#[test]
fn every_f16_and_bf16_survives_a_round_trip() {
    for bits in 0..=u16::MAX {
        for dtype in [DType::F16, DType::BF16] {
            let value = decode(dtype, &bits.to_ne_bytes());
            if !value.as_f64().is_nan() {
                assert_eq!(encode(dtype, value)[..2], bits.to_ne_bytes(), "{dtype} {bits:x}");
            }
        }
    }
}

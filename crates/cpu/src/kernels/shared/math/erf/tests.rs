use super::*;

/// Values of erf to the last digit that counts.
const KNOWN: [(f64, f64); 10] = [
    (1e-10, 1.128_379_167_095_512_6e-10),
    (0.1, 0.112_462_916_018_284_89),
    (0.5, 0.520_499_877_813_046_5),
    (1.0, 0.842_700_792_949_714_9),
    (1.5, 0.966_105_146_475_310_8),
    (2.0, 0.995_322_265_018_952_7),
    (2.25, 0.998_537_283_413_318_8),
    (2.5, 0.999_593_047_982_555),
    (3.0, 0.999_977_909_503_001_4),
    (4.0, 0.999_999_984_582_742_1),
];

#[test]
fn erf_f64_meets_known_values() {
    for (x, exact) in KNOWN {
        let error = (erf_f64(x) - exact).abs() / exact;
        assert!(error < 1.5e-15, "erf {x}: {error:e}");
        assert_eq!(erf_f64(-x), -erf_f64(x));
    }
}

#[test]
fn erf_f64_is_continuous_where_the_method_changes() {
    for edge in [2.25f64, 6.0] {
        let (below, above) = (erf_f64(edge.next_down()), erf_f64(edge));
        assert!((below - above).abs() < 1e-15, "at {edge}: {below} {above}");
    }
}

#[test]
fn erf_f32_agrees_with_double_precision() {
    for step in 1..60_000 {
        let x = step as f32 * 1e-4;
        let exact = erf_f64(f64::from(x));
        let error = (f64::from(erf_f32(x)) - exact).abs() / exact;
        assert!(error < 2e-7, "erf {x}: {error:e}");
        assert_eq!(erf_f32(-x), -erf_f32(x));
    }
}

#[test]
fn gelu_f32_agrees_with_double_precision() {
    for step in -80_000..80_000 {
        let x = step as f32 * 1e-4;
        let exact = f64::from(x)
            * if x < -3.0 {
                0.5 * complement(-f64::from(x) * std::f64::consts::FRAC_1_SQRT_2)
            } else {
                0.5 * (1.0 + erf_f64(f64::from(x) * std::f64::consts::FRAC_1_SQRT_2))
            };
        let error = (f64::from(gelu_f32(x)) - exact).abs();
        assert!(error < 4e-8 + 1.2e-7 * exact.abs(), "gelu {x}: {error:e}");
    }
    assert_eq!(gelu_f32(0.0), 0.0);
    assert_eq!(gelu_f32(f32::INFINITY), f32::INFINITY);
    assert_eq!(gelu_f32(f32::NEG_INFINITY), 0.0);
    assert!(gelu_f32(f32::NAN).is_nan());
}

#[test]
fn erf_of_limits() {
    assert_eq!(erf_f32(0.0), 0.0);
    assert_eq!(erf_f32(f32::INFINITY), 1.0);
    assert_eq!(erf_f32(f32::NEG_INFINITY), -1.0);
    assert!(erf_f32(f32::NAN).is_nan());
    assert_eq!(erf_f64(f64::NEG_INFINITY), -1.0);
    assert_eq!(erf_f64(0.0), 0.0);
    assert!(erf_f64(f64::NAN).is_nan());
}

use super::*;

#[test]
fn erf_agrees_with_tables() {
    // Values to 17 digits.
    let table = [
        (0.0, 0.0),
        (1e-10, 1.128_379_167_095_512_6e-10),
        (0.5, 0.520_499_877_813_046_5),
        (1.0, 0.842_700_792_949_714_9),
        (2.0, 0.995_322_265_018_952_7),
        (3.0, 0.999_977_909_503_001_4),
        (5.0, 0.999_999_999_998_462_5),
    ];
    for (x, value) in table {
        assert!((erf(x) - value).abs() <= 1e-14 * value, "erf({x}) = {}", erf(x));
        assert_eq!(erf(-x), -erf(x));
    }
    assert_eq!(erf(f64::INFINITY), 1.0);
    assert!(erf(f64::NAN).is_nan());
}

#[test]
fn inverse_hyperbolics_undo_the_hyperbolics() {
    for x in [1e-8, 0.01, 0.7, 3.0, 15.0, 40.0] {
        assert!((asinh(f64::sinh(x)) - x).abs() <= 1e-13 * x, "asinh {x}");
        assert!((atanh(f64::tanh(x.min(3.0))) - x.min(3.0)).abs() <= 1e-12, "atanh {x}");
    }
    for x in [0.01, 0.7, 3.0, 15.0, 40.0] {
        assert!((acosh(f64::cosh(x)) - x).abs() <= 1e-11, "acosh {x}");
    }
    assert!((asinh(f64::MAX) - 710.475_860_073_943_9).abs() < 1e-10);
    assert!(acosh(0.5).is_nan() && acosh(f64::MIN).is_nan());
    assert!(atanh(2.0).is_nan() && atanh(-1.0) == f64::NEG_INFINITY);
}

use super::*;

fn relative_error(found: f32, exact: f64) -> f64 {
    (f64::from(found) - exact).abs() / exact.abs()
}

#[test]
fn exp_is_accurate_over_its_range() {
    for step in -870_000..887_000 {
        let x = step as f32 * 1e-4;
        let error = relative_error(exp(x), f64::from(x).exp());
        assert!(error < 1.6e-7, "exp {x}: {error:e}");
    }
}

#[test]
fn exp_of_limits() {
    assert_eq!(exp(0.0), 1.0);
    assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    assert_eq!(exp(-1e30), 0.0);
    assert_eq!(exp(f32::INFINITY), f32::INFINITY);
    assert_eq!(exp(88.8), f32::INFINITY);
    assert!(exp(88.7) < f32::INFINITY);
    assert!(exp(f32::NAN).is_nan());
    let tiny = exp(-100.0);
    assert!(tiny > 3.6e-44 && tiny < 3.9e-44, "subnormal results exist: {tiny:e}");
}

#[test]
fn tanh_is_accurate_and_odd() {
    for step in -100_000..100_000 {
        let x = step as f32 * 1e-4;
        if step != 0 {
            let error = relative_error(tanh(x), f64::from(x).tanh());
            assert!(error < 2.5e-7, "tanh {x}: {error:e}");
        }
        assert_eq!(tanh(-x), -tanh(x));
    }
    assert_eq!(tanh(f32::INFINITY), 1.0);
    assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
    assert!(tanh(f32::NAN).is_nan());
    assert_eq!(tanh(1e-30), 1e-30);
}

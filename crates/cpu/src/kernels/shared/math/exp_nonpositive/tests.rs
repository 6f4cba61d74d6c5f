use super::*;

#[test]
fn powers_are_accurate_down_to_nothing() {
    for step in 0..870_000 {
        let x = step as f32 * -1e-4;
        let exact = f64::from(x).exp();
        let error = (f64::from(exp(x)) - exact).abs() / exact;
        assert!(error < 1.6e-7, "exp {x}: {error:e}");
    }
    assert_eq!(exp(0.0), 1.0);
    assert_eq!(exp(-88.0), 0.0);
    assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    assert!(exp(f32::NAN).is_nan());
}

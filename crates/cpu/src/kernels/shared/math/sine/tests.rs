use super::*;

fn check(x: f32) {
    for (name, found, exact) in
        [("sin", sin(x), f64::from(x).sin()), ("cos", cos(x), f64::from(x).cos())]
    {
        let unit = f64::from((exact as f32).abs().max(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON);
        let error = (f64::from(found) - exact).abs() / unit;
        assert!(error <= 1.0, "{name} {x:e}: {found:e} for {exact:e}, {error} units");
    }
}

#[test]
fn they_are_accurate_for_small_and_large_numbers() {
    for step in -200_000..200_000 {
        check(step as f32 * 1e-4);
    }
    // Every exponent, with significands that differ.
    for bits in (0..LIMIT.to_bits()).step_by(9_973) {
        check(f32::from_bits(bits));
        check(-f32::from_bits(bits));
    }
    check(LIMIT);
}

/// The numbers next to multiples of a quarter turn, where nearly all digits cancel.
#[test]
fn they_are_accurate_where_they_are_zero() {
    for n in (0..1 << 24).step_by(313) {
        let near = (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32;
        check(near);
        check(near.next_up());
        check(near.next_down());
    }
}

#[test]
fn zero_keeps_its_sign_and_the_sine_is_odd() {
    assert_eq!(sin(0.0).to_bits(), 0.0f32.to_bits());
    assert_eq!(sin(-0.0).to_bits(), (-0.0f32).to_bits());
    assert_eq!(cos(0.0), 1.0);
    for step in 0..10_000 {
        let x = step as f32 * 0.37;
        assert_eq!(sin(-x), -sin(x));
        assert_eq!(cos(-x), cos(x));
    }
}

use super::{erf, units};

#[test]
fn the_series_of_erf_is_exact_where_it_is_known() {
    for (x, exact) in [(0.5, 0.520_499_877_813_046_5), (2.0, 0.995_322_265_018_952_7)] {
        assert!((erf(x) - exact).abs() < 1e-14, "{x}");
    }
    assert_eq!(erf(0.0), 0.0);
}

#[test]
fn units_count_neighbors() {
    assert_eq!(units(1.0 + f32::EPSILON, 1.0), 1.0);
    assert_eq!(units(-2.0, -2.0), 0.0);
    assert_eq!(units(f32::NAN, 1.0), f64::INFINITY, "NaN is as wrong as can be");
}

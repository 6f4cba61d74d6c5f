use super::*;

#[test]
fn scales_go_from_edge_to_edge_and_have_round_marks() {
    let scale = Scale::new([10.0, 1000.0].into_iter(), 0.0, 100.0);
    assert!(scale.place(10.0) > 0.0 && scale.place(1000.0) < 100.0);
    assert!((scale.place(100.0) - 50.0).abs() < 1e-9);
    assert_eq!(scale.marks(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
}

#[test]
fn text_cannot_end_an_element() {
    assert_eq!(escaped("a <b> & c"), "a &lt;b&gt; &amp; c");
}

#[test]
fn a_scale_of_nothing_or_of_one_value_is_finite() {
    for values in [&[][..], &[0.0], &[7.0]] {
        let scale = Scale::new(values.iter().copied(), 0.0, 1.0);
        assert!([0.0, 7.0].into_iter().all(|value| scale.place(value).is_finite()));
    }
}

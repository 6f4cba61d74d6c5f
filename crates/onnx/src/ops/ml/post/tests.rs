use super::*;

#[test]
fn one_score_becomes_two_as_its_kind_asks() {
    let of = |transform: PostTransform, second| {
        let mut scores = vec![0.25];
        transform.apply(&mut scores, second);
        scores
    };
    assert_eq!(of(PostTransform::None, Second::Not), [0.25]);
    assert_eq!(of(PostTransform::None, Second::Rest), [0.75, 0.25]);
    assert_eq!(of(PostTransform::None, Second::Opposite), [-0.25, 0.25]);
    for second in [Second::Rest, Second::Opposite] {
        let [first, second] = of(PostTransform::Logistic, second)[..] else { panic!() };
        assert!((first - 0.437_823_5).abs() < 1e-6 && (second - 0.562_176_5).abs() < 1e-6);
    }
}

#[test]
fn zeros_stay_zeros() {
    let mut scores = vec![0.0, 1.0, 2.0];
    PostTransform::SoftmaxZero.apply(&mut scores, Second::Not);
    assert_eq!(scores[0], 0.0);
    assert!((scores[1] + scores[2] - 1.0).abs() < 1e-6);
}

#[test]
fn probit_is_the_inverse_of_the_normal_distribution() {
    let mut scores = vec![0.5, 0.841_344_7];
    PostTransform::Probit.apply(&mut scores, Second::Not);
    assert!(scores[0].abs() < 1e-3 && (scores[1] - 1.0).abs() < 5e-3, "{scores:?}");
}

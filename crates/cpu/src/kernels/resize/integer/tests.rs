use super::*;

#[test]
fn fractions_are_cut_off_unless_they_are_roundings() {
    let cut = |value: f32| to_integer(value) as i8;
    assert_eq!([2.0, 2.5, 2.999, -2.999, -0.5].map(cut), [2, 2, 2, -2, 0]);
    assert_eq!([2.999_999, -2.999_999, 3.000_001].map(cut), [3, -3, 3]);
    assert_eq!([127.9, 300.0, -128.5, -1e9].map(cut), [127, 127, -128, -128]);
    assert_eq!(to_integer(-3.0f32) as u8, 0);
    assert_eq!(to_integer(1e300f64) as i64, i64::MAX);
}

use super::*;

#[test]
fn fractions_are_cut_off_unless_they_are_roundings() {
    let cut = |value| Integer::<i8>::narrow(value).0;
    assert_eq!([2.0, 2.5, 2.999, -2.999, -0.5].map(cut), [2, 2, 2, -2, 0]);
    assert_eq!([2.999_999, -2.999_999, 3.000_001].map(cut), [3, -3, 3]);
    assert_eq!([127.9, 300.0, -128.5, -1e9].map(cut), [127, 127, -128, -128]);
    assert_eq!(Integer::<u8>::narrow(-3.0).0, 0);
    assert_eq!(Integer::<i64>::narrow(1e300).0, i64::MAX);
}

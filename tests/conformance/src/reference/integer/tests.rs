use super::*;

#[test]
fn powers_agree_with_repeated_multiplication() {
    for base in -5..=5i128 {
        let mut product = 1i128;
        for exponent in 0..70 {
            assert_eq!(power(base, exponent), product, "{base}^{exponent}");
            product = product.wrapping_mul(base);
        }
    }
    assert_eq!((power(2, -1), power(-1, -3), power(1, -9), power(0, -1)), (0, -1, 1, 0));
}

#[test]
fn remainders_take_the_sign_they_say() {
    let of = |op, a, b| match binary(op, DType::I32, a, b) {
        Expected::Exact(value) => value.as_i128(),
        other => panic!("{other}"),
    };
    assert_eq!((of(BinaryOp::Mod, -7, 3), of(BinaryOp::Fmod, -7, 3)), (2, -1));
    assert_eq!((of(BinaryOp::Mod, 7, -3), of(BinaryOp::Fmod, 7, -3)), (-2, 1));
    assert_eq!((of(BinaryOp::Mod, 6, -3), of(BinaryOp::Div, 7, 0)), (0, 0));
    let lowest = i128::from(i32::MIN);
    assert_eq!(of(BinaryOp::Div, lowest, -1), lowest);
    assert_eq!(of(BinaryOp::Mod, lowest, -1), 0);
}

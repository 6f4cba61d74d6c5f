use super::*;

#[test]
fn large_unsigned_numbers_are_exact() {
    let large = Scalar::from(u64::MAX - 1);
    assert_eq!(large.to_bytes(DType::U64), (u64::MAX - 1).to_ne_bytes());
    assert_eq!(large.to_bytes(DType::I64), (-2i64).to_ne_bytes());
    assert_eq!((large.as_i64(), large.as_i128()), (i64::MAX, u64::MAX as i128 - 1));
    assert_eq!(large.to_string(), (u64::MAX - 1).to_string());
    assert_eq!(Scalar::from(7u64), Scalar::Int(7));
}

#[test]
fn conversion_is_that_of_a_copy() {
    assert_eq!(Scalar::Float(300.7).to_bytes(DType::U8)[0], 255);
    assert_eq!(Scalar::Float(-300.0).to_bytes(DType::I8)[0] as i8, -128);
    assert_eq!(Scalar::Int(300).to_bytes(DType::U8)[0], 44);
    assert_eq!(Scalar::Float(f64::NAN).to_bytes(DType::I32)[..4], [0; 4]);
    assert_eq!(Scalar::Float(0.5).to_bytes(DType::Bool)[0], 1);
    assert_eq!(Scalar::Float(1e30).to_bytes(DType::U64), [255; 8]);
    assert_eq!(Scalar::Int(-1).to_bytes(DType::U64), [255; 8]);
    assert_eq!(Scalar::Float(-7.0).to_bytes(DType::U32)[..4], [0; 4]);
    assert_eq!(Scalar::Float(-1e9).to_bytes(DType::I16)[..2], i16::MIN.to_ne_bytes());
    let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    let rounded = half::f16::from_f64(1.0 + 2f64.powi(-10)).to_ne_bytes();
    assert_eq!(Scalar::Float(above).to_bytes(DType::F16)[..2], rounded);
}

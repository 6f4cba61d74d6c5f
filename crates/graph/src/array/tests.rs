use super::*;

#[test]
fn an_array_has_as_many_bytes_as_its_shape_needs() {
    assert!(Array::new(DType::F32, &[2, 2], vec![0u8; 16]).is_ok());
    let error = Array::new(DType::F32, &[2, 2], vec![0u8; 15]).unwrap_err();
    assert_eq!(error.to_string(), "array: 15 bytes for f32[2, 2], which takes 16");
    assert!(Array::new(DType::U8, &[usize::MAX, 2], vec![]).is_err());
}

#[test]
fn numbers_of_every_computed_type_are_read_as_they_were_written() {
    let values = [Scalar::Int(0), Scalar::Int(1), Scalar::Int(100)];
    for dtype in DType::COMPUTED {
        let array = Array::of_scalars(dtype, &[3], &values).unwrap();
        let last = if dtype == DType::Bool { 1.0 } else { 100.0 };
        assert_eq!(array.to_f64s().unwrap(), [0.0, 1.0, last], "{dtype}");
        assert_eq!(array.to_i64s().is_ok(), dtype.is_int() || dtype == DType::Bool, "{dtype}");
    }
}

#[test]
fn one_element_of_any_shape_is_a_scalar() {
    let one = Array::from_slice(&[7i64], &[1, 1]).unwrap();
    assert_eq!(one.to_scalar().unwrap(), Scalar::Int(7));
    assert!(Array::vector(&[1, 2]).unwrap().to_scalar().is_err());
    assert_eq!(format!("{:?}", Array::vector(&[1, 2]).unwrap()), "i64[2] [1, 2]");
}

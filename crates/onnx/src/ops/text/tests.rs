use super::*;

#[test]
fn numbers_are_written_with_the_fewest_digits() {
    let cases = [
        (0.478_925_47, DType::F32, "0.47892547"),
        (1.0, DType::F32, "1.0"),
        (-0.5, DType::F64, "-0.5"),
        (0.0, DType::F32, "0.0"),
        (1e16, DType::F64, "1e+16"),
        (123_456.0, DType::F64, "123456.0"),
        (1.5e-7, DType::F64, "1.5e-07"),
        (f64::NAN, DType::F32, "NaN"),
        (f64::NEG_INFINITY, DType::F32, "-INF"),
        (0.333_251_953_125, DType::F16, "0.3333"),
    ];
    for (value, dtype, wanted) in cases {
        let value = if dtype == DType::F32 { f64::from(value as f32) } else { value };
        assert_eq!(text(Scalar::Float(value), dtype), wanted);
    }
    assert_eq!(text(Scalar::Int(-7), DType::I32), "-7");
}

#[test]
fn strings_are_read_as_numbers() {
    assert_eq!(number(" 1e-3 ", DType::F32).unwrap(), Scalar::Float(1e-3));
    assert_eq!(number("-inf", DType::F32).unwrap(), Scalar::Float(f64::NEG_INFINITY));
    assert_eq!(number("+INF", DType::F64).unwrap(), Scalar::Float(f64::INFINITY));
    assert_eq!(number("9223372036854775807", DType::I64).unwrap(), Scalar::Int(i64::MAX));
    assert_eq!(number("18446744073709551615", DType::U64).unwrap(), Scalar::UInt(u64::MAX));
    assert!(number("seven", DType::F32).is_err());
}

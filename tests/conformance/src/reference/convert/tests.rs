use super::*;

#[test]
fn conversions_follow_their_rules() {
    let int = |value: f64, to| convert(Value::Float(value), to);
    assert_eq!(int(300.7, DType::U8), Value::Int(255));
    assert_eq!(int(-1.0, DType::U8), Value::Int(0));
    assert_eq!(int(-128.9, DType::I8), Value::Int(-128));
    assert_eq!(int(f64::INFINITY, DType::I64), Value::Int(i64::MAX.into()));
    assert_eq!(int(f64::NAN, DType::I32), Value::Int(0));
    assert_eq!(int(f64::NAN, DType::Bool), Value::Int(1));
    assert_eq!(int(-0.0, DType::Bool), Value::Int(0));
    assert_eq!(int(1e30, DType::U64), Value::Int(u64::MAX.into()));
    assert_eq!(convert(Value::Int(-1), DType::U64), Value::Int(u64::MAX.into()));
    assert_eq!(convert(Value::Int(-1), DType::U8), Value::Int(255));
    assert_eq!(convert(Value::Int(1 << 40), DType::I32), Value::Int(0));
}

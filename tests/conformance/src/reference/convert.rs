//! Conversion between element types.

use millstream_core::DType;

use crate::Value;
use crate::value::{limits, round_int_to, round_to, wrap};

/// A value in another element type: floating point rounds once to nearest, floating point to integer
/// cuts the fraction off and saturates (NaN gives 0), integer to integer wraps, and anything but zero
/// is true.
pub fn convert(value: Value, to: DType) -> Value {
    match value {
        // It is a number of the type already.
        value if to.is_storage() => value,
        Value::Float(value) if to.is_float() => Value::Float(round_to(to, value)),
        Value::Int(value) if to.is_float() => Value::Float(round_int_to(to, value)),
        // NaN is not equal to zero, hence true.
        Value::Float(value) if to == DType::Bool => Value::Int(i128::from(value != 0.0)),
        Value::Int(value) if to == DType::Bool => Value::Int(i128::from(value != 0)),
        Value::Float(value) if value.is_nan() => Value::Int(0),
        Value::Float(value) => {
            let (low, high) = limits(to);
            // The cast itself saturates, and the limits of 64 bits are not exact in f64.
            Value::Int((value.trunc() as i128).clamp(low.as_i128(), high.as_i128()))
        }
        Value::Int(value) => Value::Int(wrap(to, value)),
    }
}

#[cfg(test)]
mod tests {
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
}

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
mod tests;

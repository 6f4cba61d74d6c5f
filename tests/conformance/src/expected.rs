//! What an element may be.

use std::fmt;

use millstream_core::DType;

use crate::{Value, round_to};

/// What is expected of one element of an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// This value, with the sign of zero. Any NaN stands for any other.
    Exact(Value),
    /// A number no farther from `value` than `tolerance` before it is rounded to the element type.
    ///
    /// NaN has to be NaN and an infinity that infinity. The sign of zero is free.
    Near {
        /// The right number.
        value: f64,
        /// How far from it the device may be, before the rounding to the element type.
        tolerance: f64,
    },
    /// Any number of a range, both ends included, each rounded to the element type.
    Between {
        /// The smallest.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// Anything: the operation does not say what it gives here.
    Any,
}

impl Expected {
    /// Whether an element of that type is as expected.
    pub fn accepts(&self, dtype: DType, got: Value) -> bool {
        match (*self, got) {
            (Expected::Any, _) => true,
            (Expected::Exact(Value::Int(value)), Value::Int(got)) => value == got,
            (Expected::Exact(Value::Float(value)), Value::Float(got)) => {
                let value = round_to(dtype, value);
                value.is_nan() && got.is_nan() || value.to_bits() == got.to_bits()
            }
            (Expected::Near { value, tolerance }, Value::Float(got)) => {
                if value.is_nan() {
                    got.is_nan()
                } else if value.is_infinite() {
                    got == value
                } else {
                    within(dtype, value - tolerance, value + tolerance, got)
                }
            }
            (Expected::Between { low, high }, Value::Float(got)) => within(dtype, low, high, got),
            (Expected::Between { low, high }, Value::Int(got)) => {
                (low..=high).contains(&(got as f64))
            }
            _ => false,
        }
    }

    /// The value that a perfect device would store, where there is one.
    pub fn best(&self) -> Option<Value> {
        match *self {
            Expected::Exact(value) => Some(value),
            Expected::Near { value, .. } => Some(Value::Float(value)),
            Expected::Between { .. } | Expected::Any => None,
        }
    }
}

// Rounding keeps order, so a number inside the bounds cannot end up outside the rounded bounds.
fn within(dtype: DType, low: f64, high: f64, got: f64) -> bool {
    (round_to(dtype, low)..=round_to(dtype, high)).contains(&got)
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Exact(value) => write!(f, "exactly {value}"),
            Expected::Near { value, tolerance } => write!(f, "{value:e} ± {tolerance:e}"),
            Expected::Between { low, high } => write!(f, "{low:e} to {high:e}"),
            Expected::Any => f.write_str("anything"),
        }
    }
}

#[cfg(test)]
mod tests;

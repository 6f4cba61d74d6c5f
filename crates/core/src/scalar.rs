//! One number of any element type.

use std::fmt;

use crate::{DType, bf16_from_f64, f16_from_f64};

/// One number, wide enough to hold a value of every [`DType`] exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A floating-point value, rounded to a floating-point type where it is used; for an integer type
    /// the fraction is cut off and what is out of range saturates.
    Float(f64),
    /// An integer value, wrapped to the element type where it is used.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// The value as `f64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(value) => value,
            Scalar::Int(value) => value as f64,
            Scalar::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// The value as `i64`; a fraction is cut off and out-of-range values saturate.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Float(value) => value as i64,
            Scalar::Int(value) => value,
            Scalar::Bool(value) => i64::from(value),
        }
    }

    /// Whether the value is other than zero.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Float(value) => value != 0.0,
            Scalar::Int(value) => value != 0,
            Scalar::Bool(value) => value,
        }
    }

    fn float(self) -> Option<f64> {
        match self {
            Scalar::Float(value) => Some(value),
            _ => None,
        }
    }

    /// The value in the bytes of one element of `dtype`; only the first `dtype.size()` count.
    pub fn to_bytes(self, dtype: DType) -> [u8; 8] {
        let mut bytes = [0; 8];
        match dtype {
            DType::F32 => bytes[..4].copy_from_slice(&(self.as_f64() as f32).to_ne_bytes()),
            DType::F16 => {
                bytes[..2].copy_from_slice(&f16_from_f64(self.as_f64()).to_ne_bytes());
            }
            DType::BF16 => {
                bytes[..2].copy_from_slice(&bf16_from_f64(self.as_f64()).to_ne_bytes());
            }
            DType::F64 => bytes = self.as_f64().to_ne_bytes(),
            DType::I8 => bytes[0] = self.float().map_or(self.as_i64() as i8, |x| x as i8) as u8,
            DType::U8 => bytes[0] = self.float().map_or(self.as_i64() as u8, |x| x as u8),
            DType::I32 => {
                let value = self.float().map_or(self.as_i64() as i32, |x| x as i32);
                bytes[..4].copy_from_slice(&value.to_ne_bytes());
            }
            DType::I64 => bytes = self.as_i64().to_ne_bytes(),
            DType::Bool => bytes[0] = u8::from(self.as_bool()),
        }
        bytes
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Float(value) => value.fmt(f),
            Scalar::Int(value) => value.fmt(f),
            Scalar::Bool(value) => value.fmt(f),
        }
    }
}

impl From<f32> for Scalar {
    fn from(value: f32) -> Self {
        Scalar::Float(f64::from(value))
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Scalar::Float(value)
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Scalar::Int(value)
    }
}

impl From<i32> for Scalar {
    fn from(value: i32) -> Self {
        Scalar::Int(i64::from(value))
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Scalar::Bool(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_is_that_of_a_copy() {
        assert_eq!(Scalar::Float(300.7).to_bytes(DType::U8)[0], 255);
        assert_eq!(Scalar::Float(-300.0).to_bytes(DType::I8)[0] as i8, -128);
        assert_eq!(Scalar::Int(300).to_bytes(DType::U8)[0], 44);
        assert_eq!(Scalar::Float(f64::NAN).to_bytes(DType::I32)[..4], [0; 4]);
        assert_eq!(Scalar::Float(0.5).to_bytes(DType::Bool)[0], 1);
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        let rounded = half::f16::from_f64(1.0 + 2f64.powi(-10)).to_ne_bytes();
        assert_eq!(Scalar::Float(above).to_bytes(DType::F16)[..2], rounded);
    }
}

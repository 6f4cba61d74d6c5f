//! One number of any element type.

use std::fmt;

use crate::{DType, SmallFloat, bf16_from_f64, f16_from_f64};

/// One number, wide enough to hold a value of every [`DType`] exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A floating-point value, rounded to a floating-point type where it is used; for an integer type
    /// the fraction is cut off and what is out of range saturates.
    Float(f64),
    /// An integer value, wrapped to the element type where it is used.
    Int(i64),
    /// The same, for values that [`Int`](Self::Int) cannot hold.
    UInt(u64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// The value as `f64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(value) => value,
            Scalar::Int(value) => value as f64,
            Scalar::UInt(value) => value as f64,
            Scalar::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// The value as `i64`; a fraction is cut off and out-of-range values saturate.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Float(value) => value as i64,
            Scalar::Int(value) => value,
            Scalar::UInt(value) => i64::try_from(value).unwrap_or(i64::MAX),
            Scalar::Bool(value) => i64::from(value),
        }
    }

    /// The value as an integer of any element type; a fraction is cut off and out-of-range values saturate.
    pub fn as_i128(self) -> i128 {
        match self {
            Scalar::Float(value) => value as i128,
            Scalar::Int(value) => value.into(),
            Scalar::UInt(value) => value.into(),
            Scalar::Bool(value) => value.into(),
        }
    }

    /// Whether the value is other than zero.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Float(value) => value != 0.0,
            Scalar::Int(value) => value != 0,
            Scalar::UInt(value) => value != 0,
            Scalar::Bool(value) => value,
        }
    }

    /// The value in the bytes of one element of `dtype`; only the first `dtype.size()` count.
    pub fn to_bytes(self, dtype: DType) -> [u8; 8] {
        fn padded<const N: usize>(bytes: [u8; N]) -> [u8; 8] {
            std::array::from_fn(|at| if at < N { bytes[at] } else { 0 })
        }
        macro_rules! integer {
            ($type:ty) => {
                padded(match self {
                    Scalar::Float(value) => (value as $type).to_ne_bytes(),
                    _ => (self.as_i128() as $type).to_ne_bytes(),
                })
            };
        }
        match dtype {
            DType::F32 => padded((self.as_f64() as f32).to_ne_bytes()),
            DType::F16 => padded(f16_from_f64(self.as_f64()).to_ne_bytes()),
            DType::BF16 => padded(bf16_from_f64(self.as_f64()).to_ne_bytes()),
            DType::F64 => self.as_f64().to_ne_bytes(),
            DType::I8 => integer!(i8),
            DType::I16 => integer!(i16),
            DType::I32 => integer!(i32),
            DType::I64 => integer!(i64),
            DType::U8 => integer!(u8),
            DType::U16 => integer!(u16),
            DType::U32 => integer!(u32),
            DType::U64 => integer!(u64),
            DType::Bool => padded([u8::from(self.as_bool())]),
            DType::I4 | DType::U4 => padded([self.as_i128() as u8 & 15]),
            DType::F8E4M3FN
            | DType::F8E5M2
            | DType::F8E4M3FNUZ
            | DType::F8E5M2FNUZ
            | DType::F8E8M0
            | DType::F4E2M1 => {
                let format = SmallFloat::of(dtype);
                padded([format.map_or(0, |format| format.bits_of(self.as_f64() as f32, true))])
            }
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Float(value) => value.fmt(f),
            Scalar::Int(value) => value.fmt(f),
            Scalar::UInt(value) => value.fmt(f),
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

impl From<u64> for Scalar {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Scalar::UInt(value), Scalar::Int)
    }
}

impl From<u32> for Scalar {
    fn from(value: u32) -> Self {
        Scalar::Int(i64::from(value))
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Scalar::Bool(value)
    }
}

#[cfg(test)]
mod tests;

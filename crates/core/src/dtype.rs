//! Element types.

use std::fmt;

use half::{bf16, f16};

use crate::{Error, Result};

/// The type of one element of a buffer.
///
/// Some are only stored: they are uploaded, downloaded, copied and cast to others, and every other operation
/// refuses them. Of those with 4 bits two share a byte, the first in the low bits. Their elements lie densely
/// in row-major order and begin with a byte; where their number is odd, the last byte has zeros above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DType {
    /// 32-bit floating point.
    F32,
    /// 16-bit floating point, IEEE 754 binary16.
    F16,
    /// 16-bit floating point with the exponent range of `f32`.
    BF16,
    /// 64-bit floating point.
    F64,
    /// 8-bit signed integer.
    I8,
    /// 8-bit unsigned integer.
    U8,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// One byte, 0 or 1.
    Bool,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// 16-bit signed integer.
    I16,
    /// 8-bit floating point with 4 bits of exponent and 3 of fraction, NaN and no infinity. Only stored.
    F8E4M3FN,
    /// 8-bit floating point with 5 bits of exponent and 2 of fraction, NaN and infinities. Only stored.
    F8E5M2,
    /// As [`F8E4M3FN`](Self::F8E4M3FN), with another range, one NaN and one zero. Only stored.
    F8E4M3FNUZ,
    /// As [`F8E5M2`](Self::F8E5M2), with another range, one NaN, one zero and no infinity. Only stored.
    F8E5M2FNUZ,
    /// Powers of two from 2⁻¹²⁷ to 2¹²⁷, and NaN. Only stored.
    F8E8M0,
    /// 4-bit signed integer, two in a byte. Only stored.
    I4,
    /// 4-bit unsigned integer, two in a byte. Only stored.
    U4,
    /// 4-bit floating point with 2 bits of exponent and 1 of fraction, two in a byte. Only stored.
    F4E2M1,
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [DType; 21] = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F64,
        DType::I8,
        DType::U8,
        DType::I32,
        DType::I64,
        DType::Bool,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::I16,
        DType::F8E4M3FN,
        DType::F8E5M2,
        DType::F8E4M3FNUZ,
        DType::F8E5M2FNUZ,
        DType::F8E8M0,
        DType::I4,
        DType::U4,
        DType::F4E2M1,
    ];

    /// Those that operations compute with.
    pub const COMPUTED: [DType; 13] = *Self::ALL.first_chunk().expect("they come first");

    /// Bytes of one element; 1 for types of 4 bits, of which [two share a byte](Self::per_byte).
    pub const fn size(self) -> usize {
        match self {
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F8E4M3FN | DType::F8E5M2 | DType::F8E4M3FNUZ | DType::F8E5M2FNUZ => 1,
            DType::F8E8M0 | DType::I4 | DType::U4 | DType::F4E2M1 => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
        }
    }

    /// Elements that share a byte: 2 of the types of 4 bits, else 1.
    pub const fn per_byte(self) -> usize {
        match self {
            DType::I4 | DType::U4 | DType::F4E2M1 => 2,
            _ => 1,
        }
    }

    /// Bytes that so many elements take if they lie densely. `None` if no number says how many.
    pub const fn bytes(self, count: usize) -> Option<usize> {
        count.div_ceil(self.per_byte()).checked_mul(self.size())
    }

    /// The usual short name, as in `"f32"`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bool => "bool",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::I16 => "i16",
            DType::F8E4M3FN => "f8e4m3fn",
            DType::F8E5M2 => "f8e5m2",
            DType::F8E4M3FNUZ => "f8e4m3fnuz",
            DType::F8E5M2FNUZ => "f8e5m2fnuz",
            DType::F8E8M0 => "f8e8m0",
            DType::I4 => "i4",
            DType::U4 => "u4",
            DType::F4E2M1 => "f4e2m1",
        }
    }

    /// Whether this is a floating-point type that is computed with.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
    }

    /// Whether this is an integer type that is computed with; `bool` is not.
    pub const fn is_int(self) -> bool {
        use DType::{I8, I16, I32, I64, U8, U16, U32, U64};
        matches!(self, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
    }

    /// Whether this is a type of numbers that are computed with.
    pub const fn is_number(self) -> bool {
        self.is_float() || self.is_int()
    }

    /// Whether elements of this type are only stored.
    pub const fn is_storage(self) -> bool {
        self as u8 >= DType::F8E4M3FN as u8
    }

    /// Whether numbers of this type, which is computed with, can be negative.
    pub const fn is_signed(self) -> bool {
        self.is_float() || matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that is stored in buffers as it is in memory.
///
/// # Safety
///
/// The type has no padding, any bit pattern that a device writes for [`Element::DTYPE`] is a valid
/// value of it, and its size is `DTYPE.size()`. (`bool` is left out on purpose: use `u8` and
/// [`DType::Bool`], since a byte other than 0 and 1 is not a valid `bool`.)
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The element type this Rust type is stored as.
    const DTYPE: DType;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $(
            // SAFETY: a plain number without padding, valid for every bit pattern, of that size.
            unsafe impl Element for $rust {
                const DTYPE: DType = DType::$dtype;
            }
        )*
    };
}

element!(f32 => F32, f16 => F16, bf16 => BF16, f64 => F64);
element!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64);

/// The bytes of a slice of elements.
pub fn as_bytes<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: `Element` types have no padding, so every byte is initialized; the length is exact.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), std::mem::size_of_val(values)) }
}

/// As [`from_bytes`].
///
/// # Errors
///
/// No memory for them.
pub(crate) fn try_from_bytes<T: Element>(bytes: &[u8]) -> Result<Vec<T>> {
    let count = bytes.len() / size_of::<T>();
    let mut values = Vec::new();
    if values.try_reserve_exact(count).is_err() {
        return Err(Error::OutOfHostMemory { requested: bytes.len() });
    }
    append_bytes(&mut values, bytes);
    Ok(values)
}

/// Elements from bytes written by a device. A trailing part of an element is left out.
pub fn from_bytes<T: Element>(bytes: &[u8]) -> Vec<T> {
    let mut values = Vec::with_capacity(bytes.len() / size_of::<T>());
    append_bytes(&mut values, bytes);
    values
}

fn append_bytes<T: Element>(values: &mut Vec<T>, bytes: &[u8]) {
    let count = bytes.len() / size_of::<T>();
    values.reserve(count);
    // SAFETY: there is room for `count` more elements, the source has `count * size` bytes, the two do
    // not overlap, and any bit pattern is a valid `Element`.
    unsafe {
        let end = values.as_mut_ptr().add(values.len()).cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), end, count * size_of::<T>());
        values.set_len(values.len() + count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_sizes_match_their_dtype() {
        fn check<T: Element>() {
            assert_eq!(size_of::<T>(), T::DTYPE.size(), "{}", T::DTYPE);
        }
        let floats: [fn(); 4] = [check::<f32>, check::<f16>, check::<bf16>, check::<f64>];
        let signed: [fn(); 4] = [check::<i8>, check::<i16>, check::<i32>, check::<i64>];
        let unsigned: [fn(); 4] = [check::<u8>, check::<u16>, check::<u32>, check::<u64>];
        [floats, signed, unsigned].iter().flatten().for_each(|check| check());
    }

    #[test]
    fn types_are_listed_in_the_order_of_their_numbers() {
        for (number, dtype) in DType::ALL.into_iter().enumerate() {
            assert_eq!(dtype as usize, number, "{dtype}");
        }
    }

    #[test]
    fn bytes_round_trip() {
        let values = [1.5f32, -0.0, f32::INFINITY];
        assert_eq!(from_bytes::<f32>(as_bytes(&values)), values);
    }
}

//! Elements as numbers, and their rounding, written without the devices' own conversions.

use std::fmt;

use half::{bf16, f16};
use millstream_core::DType;

use crate::small;

/// One element, read from bytes. Integers and `bool` are exact, floating point is wider than it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An element of a floating-point type.
    Float(f64),
    /// An element of an integer type, or the byte of a `bool`.
    Int(i128),
}

impl Value {
    /// The number as `f64`; large integers round.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Float(value) => value,
            Value::Int(value) => value as f64,
        }
    }

    /// The number of an integer element.
    ///
    /// # Panics
    ///
    /// A floating-point element: the reference must convert those on purpose.
    pub fn as_i128(self) -> i128 {
        match self {
            Value::Int(value) => value,
            Value::Float(value) => panic!("{value} is not an integer element"),
        }
    }

    /// The number of an element that is no larger than those of `i64`.
    ///
    /// # Panics
    ///
    /// As [`as_i128`](Self::as_i128), and a larger number.
    pub fn as_i64(self) -> i64 {
        self.as_i128().try_into().expect("a number of i64")
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Float(value) => write!(f, "{value:e}"),
            Value::Int(value) => write!(f, "{value}"),
        }
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|index| bytes[index])
}

/// Reads one element; of a type of 4 bits, from the low bits of a byte.
///
/// # Panics
///
/// Fewer bytes than an element takes.
pub fn decode(dtype: DType, bytes: &[u8]) -> Value {
    match dtype {
        DType::F32 => Value::Float(f64::from(f32::from_ne_bytes(first(bytes)))),
        DType::F16 => Value::Float(f16::from_ne_bytes(first(bytes)).to_f64()),
        DType::BF16 => Value::Float(bf16::from_ne_bytes(first(bytes)).to_f64()),
        DType::F64 => Value::Float(f64::from_ne_bytes(first(bytes))),
        DType::I8 => Value::Int((bytes[0] as i8).into()),
        DType::U8 | DType::Bool => Value::Int(bytes[0].into()),
        DType::I16 => Value::Int(i16::from_ne_bytes(first(bytes)).into()),
        DType::U16 => Value::Int(u16::from_ne_bytes(first(bytes)).into()),
        DType::I32 => Value::Int(i32::from_ne_bytes(first(bytes)).into()),
        DType::U32 => Value::Int(u32::from_ne_bytes(first(bytes)).into()),
        DType::I64 => Value::Int(i64::from_ne_bytes(first(bytes)).into()),
        DType::U64 => Value::Int(u64::from_ne_bytes(first(bytes)).into()),
        stored => small::value(stored, bytes[0]),
    }
}

/// The bytes of one element, of which the first `dtype.size()` count: floating point rounds to
/// nearest, integers wrap. Of a type of 4 bits these are the low ones of a byte.
///
/// # Panics
///
/// A floating-point value for an integer type: the caller has to choose a conversion.
pub fn encode(dtype: DType, value: Value) -> [u8; 8] {
    fn padded<const N: usize>(bytes: [u8; N]) -> [u8; 8] {
        std::array::from_fn(|at| if at < N { bytes[at] } else { 0 })
    }
    let rounded = || round_to(dtype, value.as_f64());
    match dtype {
        DType::F32 => padded((rounded() as f32).to_ne_bytes()),
        DType::F16 => padded(f16::from_f64(rounded()).to_ne_bytes()),
        DType::BF16 => padded(bf16::from_f64(rounded()).to_ne_bytes()),
        DType::F64 => value.as_f64().to_ne_bytes(),
        DType::I8 | DType::U8 | DType::Bool => padded([value.as_i128() as u8]),
        DType::I16 | DType::U16 => padded((value.as_i128() as u16).to_ne_bytes()),
        DType::I32 | DType::U32 => padded((value.as_i128() as u32).to_ne_bytes()),
        DType::I64 | DType::U64 => (value.as_i128() as u64).to_ne_bytes(),
        stored => padded([small::code(stored, value)]),
    }
}

/// The bytes of several elements, one after the other.
pub(crate) fn encode_all(dtype: DType, values: &[Value]) -> Vec<u8> {
    let mut bytes = vec![0; dtype.bytes(values.len()).expect("few")];
    values.iter().enumerate().for_each(|(at, value)| write_at(dtype, &mut bytes, at, *value));
    bytes
}

/// The element at a position, counted in elements.
pub(crate) fn read_at(dtype: DType, bytes: &[u8], position: usize) -> Value {
    if dtype.per_byte() == 2 {
        return decode(dtype, &[bytes[position / 2] >> (4 * (position % 2)) & 15]);
    }
    decode(dtype, &bytes[position * dtype.size()..])
}

/// Writes the element at a position, counted in elements.
pub(crate) fn write_at(dtype: DType, bytes: &mut [u8], position: usize, value: Value) {
    let (size, code) = (dtype.size(), encode(dtype, value));
    if dtype.per_byte() == 2 {
        let (byte, shift) = (&mut bytes[position / 2], 4 * (position % 2));
        *byte = *byte & !(15 << shift) | code[0] << shift;
        return;
    }
    bytes[position * size..][..size].copy_from_slice(&code[..size]);
}

/// What distinguishes one floating-point type from another.
struct Format {
    /// Bits of the significand, with the leading one.
    precision: i32,
    /// The exponent of the smallest normal number.
    lowest: i32,
    largest: f64,
}

fn format(dtype: DType) -> Format {
    match dtype {
        DType::F16 => Format { precision: 11, lowest: -14, largest: 65504.0 },
        DType::BF16 => Format { precision: 8, lowest: -126, largest: 255.0 * 2f64.powi(120) },
        DType::F32 => Format { precision: 24, lowest: -126, largest: f64::from(f32::MAX) },
        DType::F64 => Format { precision: 53, lowest: -1022, largest: f64::MAX },
        other => panic!("{other} is not a floating-point type"),
    }
}

/// The nearest number of a floating-point type, ties to even, with overflow to infinity.
///
/// There is exactly one rounding, also where a device would be tempted to go through `f32`.
///
/// # Panics
///
/// A type that is not floating point.
pub fn round_to(dtype: DType, value: f64) -> f64 {
    // What is only stored is never rounded but by a conversion.
    if dtype.is_storage() {
        return value;
    }
    let format = format(dtype);
    if dtype == DType::F64 || value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = (((value.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(format.lowest);
    // Dividing by a power of two is exact, so the only rounding is the one asked for.
    let quantum = 2f64.powi(exponent - (format.precision - 1));
    let rounded = (value / quantum).round_ties_even() * quantum;
    if rounded.abs() > format.largest { f64::INFINITY.copysign(value) } else { rounded }
}

/// The nearest number of a floating-point type to an integer, with one rounding.
///
/// # Panics
///
/// A type that is not floating point.
pub(crate) fn round_int_to(dtype: DType, value: i128) -> f64 {
    let magnitude = value.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros() as i32 - format(dtype).precision).max(0) as u32;
    let unit = 1u128 << excess;
    let (quotient, rest) = (magnitude / unit, magnitude % unit);
    let up = 2 * rest > unit || (2 * rest == unit && quotient % 2 == 1);
    let rounded = ((quotient + u128::from(up)) * unit) as f64;
    round_to(dtype, if value < 0 { -rounded } else { rounded })
}

/// The smallest and the largest finite number of a type.
pub fn limits(dtype: DType) -> (Value, Value) {
    let ints = |low: i128, high: i128| (Value::Int(low), Value::Int(high));
    match dtype {
        DType::I8 => ints(i8::MIN.into(), i8::MAX.into()),
        DType::I16 => ints(i16::MIN.into(), i16::MAX.into()),
        DType::I32 => ints(i32::MIN.into(), i32::MAX.into()),
        DType::I64 => ints(i64::MIN.into(), i64::MAX.into()),
        DType::U8 => ints(0, u8::MAX.into()),
        DType::U16 => ints(0, u16::MAX.into()),
        DType::U32 => ints(0, u32::MAX.into()),
        DType::U64 => ints(0, u64::MAX.into()),
        DType::Bool => ints(0, 1),
        float => (Value::Float(-format(float).largest), Value::Float(format(float).largest)),
    }
}

/// An integer reduced to the range of a type, as two's complement does.
pub(crate) fn wrap(dtype: DType, value: i128) -> i128 {
    match dtype {
        DType::I8 => (value as i8).into(),
        DType::I16 => (value as i16).into(),
        DType::I32 => (value as i32).into(),
        DType::I64 => (value as i64).into(),
        DType::U8 => (value as u8).into(),
        DType::U16 => (value as u16).into(),
        DType::U32 => (value as u32).into(),
        DType::U64 => (value as u64).into(),
        other => panic!("{other} is not an integer type"),
    }
}

#[cfg(test)]
mod tests;

//! Floating-point numbers of 8 and of 4 bits, which are stored and never computed with.

use crate::DType;

/// A floating-point type of at most 8 bits, and how its numbers become others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallFloat(Format);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Signed(Signed),
    /// All bits are the exponent, the last of them for NaN. There is no zero.
    Exponent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signed {
    /// Bits of the fraction.
    fraction: u32,
    /// The exponent of the smallest normal number.
    lowest: i32,
    /// The bit of the sign.
    sign: u8,
    /// The bits of the largest number.
    largest: u8,
    /// The bits above that, where nothing saturates: infinity or NaN.
    beyond: u8,
    nan: u8,
    /// There is one zero, and what would be the other is NaN.
    one_zero: bool,
}

impl SmallFloat {
    /// The format of an element type, if it is one of these.
    pub fn of(dtype: DType) -> Option<Self> {
        let signed = |fraction, lowest, largest, beyond, nan| Signed {
            fraction,
            lowest,
            sign: 0x80,
            largest,
            beyond,
            nan,
            one_zero: nan == 0x80,
        };
        Some(Self(match dtype {
            DType::F8E4M3FN => Format::Signed(signed(3, -6, 0x7E, 0x7F, 0x7F)),
            DType::F8E5M2 => Format::Signed(signed(2, -14, 0x7B, 0x7C, 0x7E)),
            DType::F8E4M3FNUZ => Format::Signed(signed(3, -7, 0x7F, 0x80, 0x80)),
            DType::F8E5M2FNUZ => Format::Signed(signed(2, -15, 0x7F, 0x80, 0x80)),
            // It has neither infinity nor NaN, so that it always saturates, and NaN becomes zero.
            DType::F4E2M1 => {
                Format::Signed(Signed { sign: 0x08, ..signed(1, 0, 0x07, 0x07, 0x08) })
            }
            DType::F8E8M0 => Format::Exponent,
            _ => return None,
        }))
    }

    /// The number with these bits, of which a 4-bit type has the low four.
    pub fn value_of(self, bits: u8) -> f32 {
        match self.0 {
            Format::Signed(format) => format.value_of(bits),
            Format::Exponent => match bits {
                0xFF => f32::NAN,
                // A subnormal number of `f32`.
                0 => f32::from_bits(1 << 22),
                _ => f32::from_bits(u32::from(bits) << 23),
            },
        }
    }

    /// The bits of the nearest number, ties to even; of a type without fraction those of the next power of
    /// two that is not smaller, and NaN for what is below zero. Numbers beyond the largest and infinities
    /// become the largest, or without `saturate` infinity or NaN, as the type has it.
    pub fn bits_of(self, value: f32, saturate: bool) -> u8 {
        match self.0 {
            Format::Signed(format) => format.bits_of(value, saturate),
            Format::Exponent => {
                let bits = value.to_bits();
                if !value.is_finite() || value < 0.0 {
                    return 0xFF;
                }
                let whole = bits & 0x7FFF_FFFF;
                let exponent = (whole >> 23) + u32::from(whole & 0x7F_FFFF != 0);
                match exponent {
                    _ if whole <= 1 << 22 => 0,
                    0xFF if saturate => 0xFE,
                    _ => exponent as u8,
                }
            }
        }
    }
}

/// A power of two that `f32` has as a normal number.
fn power(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

impl Signed {
    fn value_of(self, bits: u8) -> f32 {
        let (sign, rest) = (bits & self.sign, bits & (self.sign - 1));
        let is_nan = if self.one_zero { bits == self.nan } else { rest > self.largest };
        if is_nan {
            let infinite = self.beyond != self.nan && rest == self.beyond;
            let special = if infinite { f32::INFINITY } else { f32::NAN };
            return if sign != 0 { -special } else { special };
        }
        let exponent = i32::from(rest >> self.fraction);
        let fraction = i32::from(rest) & ((1 << self.fraction) - 1);
        let whole = if exponent == 0 { fraction } else { fraction + (1 << self.fraction) };
        let scale = power(exponent.max(1) - 1 + self.lowest - self.fraction as i32);
        let size = whole as f32 * scale;
        if sign != 0 { -size } else { size }
    }

    fn bits_of(self, value: f32, saturate: bool) -> u8 {
        let sign = if value.is_sign_negative() { self.sign } else { 0 };
        if value.is_nan() {
            return if self.one_zero || self.sign == 0x08 { self.nan } else { self.nan | sign };
        }
        let size = value.abs();
        let beyond =
            if saturate || self.beyond == self.largest { self.largest } else { self.beyond };
        let rounded = if size.is_infinite() {
            beyond
        } else {
            let exponent = ((size.to_bits() >> 23) as i32 - 127).max(self.lowest);
            // Exact, since only the exponent changes: in steps of the last bit of the result.
            let steps = (size * power(self.fraction as i32 - exponent)).round_ties_even() as i32;
            let bits = ((exponent - self.lowest) << self.fraction) + steps;
            if bits > i32::from(self.largest) { beyond } else { bits as u8 }
        };
        match rounded {
            0 if self.one_zero => 0,
            _ if self.one_zero && rounded == self.nan => self.nan,
            _ => rounded | sign,
        }
    }
}

#[cfg(test)]
mod tests;

//! Integer elements.

use super::number::Stored;

/// An integer type. Operations wrap around and have a value for every argument.
pub(crate) trait Int: Stored<Compute = Self> + Ord {
    const ZERO: Self;
    const MIN: Self;
    const MAX: Self;

    /// The nearest of the type.
    fn clamped(number: i128) -> Self;
    fn to_i128(self) -> i128;
    /// Adds to a sum of 64 bits, which wraps around.
    fn add_to(self, sum: u64) -> u64;
    /// Such a sum divided by a number that is not 0, rounded towards zero.
    fn mean(sum: u64, count: usize) -> Self;
    fn abs(self) -> Self;
    fn negate(self) -> Self;
    fn sign(self) -> Self;
    fn not(self) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// Rounds towards zero; by zero gives 0.
    fn div(self, other: Self) -> Self;
    /// With the sign of the dividend; by zero gives 0.
    fn remainder(self, other: Self) -> Self;
    /// With the sign of the divisor; by zero gives 0.
    fn modulo(self, other: Self) -> Self;
    /// A negative exponent gives the power of the inverse, rounded towards zero.
    fn pow(self, exponent: Self) -> Self;
    fn prelu(self, slope: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// By the width or more, or by a negative count, gives 0.
    fn shift_left(self, count: Self) -> Self;
    /// Keeps the sign; by the width or more, or by a negative count, only that is left: 0 or -1.
    fn shift_right(self, count: Self) -> Self;
}

macro_rules! int {
    ($($type:ident),*) => {
        $(
            #[allow(unused_comparisons, reason = "some of the types have no sign")]
            impl Int for $type {
                const ZERO: Self = 0;
                const MIN: Self = $type::MIN;
                const MAX: Self = $type::MAX;

                #[inline(always)]
                fn clamped(number: i128) -> Self {
                    number.clamp(i128::from($type::MIN), i128::from($type::MAX)) as $type
                }

                #[inline(always)]
                fn to_i128(self) -> i128 {
                    i128::from(self)
                }

                #[inline(always)]
                fn add_to(self, sum: u64) -> u64 {
                    sum.wrapping_add(self as u64)
                }

                #[inline(always)]
                fn mean(sum: u64, count: usize) -> Self {
                    if $type::MIN == 0 {
                        (sum / count as u64) as $type
                    } else {
                        (sum as i64).wrapping_div(count as i64) as $type
                    }
                }

                #[inline(always)]
                fn abs(self) -> Self {
                    if self < 0 { self.wrapping_neg() } else { self }
                }

                #[inline(always)]
                fn negate(self) -> Self {
                    self.wrapping_neg()
                }

                #[inline(always)]
                fn sign(self) -> Self {
                    if self < 0 { (0 as $type).wrapping_sub(1) } else { self.min(1) }
                }

                #[inline(always)]
                fn not(self) -> Self {
                    !self
                }

                #[inline(always)]
                fn add(self, other: Self) -> Self {
                    self.wrapping_add(other)
                }

                #[inline(always)]
                fn sub(self, other: Self) -> Self {
                    self.wrapping_sub(other)
                }

                #[inline(always)]
                fn mul(self, other: Self) -> Self {
                    self.wrapping_mul(other)
                }

                #[inline(always)]
                fn div(self, other: Self) -> Self {
                    if other == 0 { 0 } else { self.wrapping_div(other) }
                }

                #[inline(always)]
                fn remainder(self, other: Self) -> Self {
                    if other == 0 { 0 } else { self.wrapping_rem(other) }
                }

                #[inline(always)]
                fn modulo(self, other: Self) -> Self {
                    let remainder = self.remainder(other);
                    if remainder != 0 && (remainder < 0) != (other < 0) {
                        remainder.wrapping_add(other)
                    } else {
                        remainder
                    }
                }

                fn pow(self, exponent: Self) -> Self {
                    let (mut base, mut left, mut power): (Self, Self, Self) = (self, exponent, 1);
                    if exponent < 0 {
                        // Of 1 and -1, which are their own inverses, the last bit decides.
                        let unit = self == 1 || self.wrapping_add(1) == 0;
                        (base, left) = if unit { (self, exponent & 1) } else { (0, 1) };
                    }
                    while left != 0 {
                        if left & 1 == 1 {
                            power = power.wrapping_mul(base);
                        }
                        base = base.wrapping_mul(base);
                        left >>= 1;
                    }
                    power
                }

                #[inline(always)]
                fn prelu(self, slope: Self) -> Self {
                    if self >= 0 { self } else { slope.wrapping_mul(self) }
                }

                #[inline(always)]
                fn and(self, other: Self) -> Self {
                    self & other
                }

                #[inline(always)]
                fn or(self, other: Self) -> Self {
                    self | other
                }

                #[inline(always)]
                fn xor(self, other: Self) -> Self {
                    self ^ other
                }

                #[inline(always)]
                fn shift_left(self, count: Self) -> Self {
                    u32::try_from(count).ok().and_then(|by| self.checked_shl(by)).unwrap_or(0)
                }

                #[inline(always)]
                fn shift_right(self, count: Self) -> Self {
                    let shifted = u32::try_from(count).ok().and_then(|by| self.checked_shr(by));
                    shifted.unwrap_or(if self < 0 { !0 } else { 0 })
                }
            }
        )*
    };
}

int!(i8, i16, i32, i64, u8, u16, u32, u64);

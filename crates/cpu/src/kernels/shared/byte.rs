//! Numbers as 8-bit integers.

use std::mem::MaybeUninit;

use super::number::Stored;
use super::simd::SimdFn;

/// A type of 8-bit integers.
pub(crate) trait Byte: Stored<Compute = Self> {
    const LOW: f32;
    const HIGH: f32;

    /// A whole number inside the limits.
    fn of(whole: i32) -> Self;
}

impl Byte for u8 {
    const LOW: f32 = 0.0;
    const HIGH: f32 = 255.0;

    #[inline(always)]
    fn of(whole: i32) -> Self {
        whole as u8
    }
}

impl Byte for i8 {
    const LOW: f32 = -128.0;
    const HIGH: f32 = 127.0;

    #[inline(always)]
    fn of(whole: i32) -> Self {
        whole as i8
    }
}

/// `values / scale`, rounded with halves to even, and `zero` more, saturated. NaN becomes the zero point.
pub(crate) struct ToBytes<'a, Q> {
    pub values: &'a [f32],
    pub scale: f32,
    /// A whole number.
    pub zero: f32,
    pub to: &'a mut [MaybeUninit<Q>],
}

impl<Q: Byte> SimdFn for ToBytes<'_, Q> {
    #[inline(always)]
    fn run(self) {
        for (to, &value) in self.to.iter_mut().zip(self.values) {
            let whole = (value / self.scale).round_ties_even();
            let whole = if whole.is_nan() { 0.0 } else { whole };
            let inside = (whole + self.zero).clamp(Q::LOW, Q::HIGH);
            // SAFETY: the number is whole, inside the limits of a byte, and not NaN.
            to.write(Q::of(unsafe { inside.to_int_unchecked::<i32>() }));
        }
    }
}

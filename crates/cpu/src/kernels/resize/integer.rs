//! Integers that are interpolated as floating-point numbers.

use crate::kernels::shared::number::Stored;

/// An integer in memory.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Integer<T>(T);

/// How near an integer a number counts as that, relative to its size.
const NEAR: f64 = 1.0 / (1 << 20) as f64;

macro_rules! integers {
    ($($type:ident as $compute:ident),*) => {$(
        impl Stored for Integer<$type> {
            type Compute = $compute;
            const DIRECT: bool = false;

            #[inline(always)]
            fn widen(self) -> $compute {
                self.0 as $compute
            }

            /// Cuts the fraction off, and saturates.
            #[inline(always)]
            fn narrow(value: $compute) -> Self {
                let integer = value.round_ties_even();
                let near = (value - integer).abs() <= value.abs() * NEAR as $compute;
                Integer(if near { integer } else { value } as $type)
            }
        }
    )*};
}

integers!(
    i8 as f32, u8 as f32, i16 as f32, u16 as f32, i32 as f64, u32 as f64, i64 as f64, u64 as f64
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_cut_off_unless_they_are_roundings() {
        let cut = |value| Integer::<i8>::narrow(value).0;
        assert_eq!([2.0, 2.5, 2.999, -2.999, -0.5].map(cut), [2, 2, 2, -2, 0]);
        assert_eq!([2.999_999, -2.999_999, 3.000_001].map(cut), [3, -3, 3]);
        assert_eq!([127.9, 300.0, -128.5, -1e9].map(cut), [127, 127, -128, -128]);
        assert_eq!(Integer::<u8>::narrow(-3.0).0, 0);
        assert_eq!(Integer::<i64>::narrow(1e300).0, i64::MAX);
    }
}

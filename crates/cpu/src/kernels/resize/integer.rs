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
mod tests;

//! The innermost loops of convolutions with the channels last: some places of a line, and some neighboring output channels.
//!
//! Sums stay in registers for all taps of the window. Each is made in rising order of taps and channels in one
//! accumulator, whatever the number of places and channels, so a result has the same bits in a tile of any size.

#[cfg(target_arch = "x86_64")]
mod pairs;

use crate::kernels::matmul::vector::{Array, Vector};
use crate::kernels::shared::number::Float;
use crate::kernels::shared::simd::Isa;

/// How far ahead weights are prefetched, in steps of k.
const AHEAD: usize = 16;

/// How many output channels a tile has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Eight registers of them, for one place: so many sums are under way at once that the time which one addition takes is
    /// hidden.
    Eight,
    /// Four registers, for few places.
    Four,
    /// Two registers.
    Two,
    /// One and a half.
    OneAndHalf,
    /// One register.
    One,
}

/// A tile of the output, and what its sums are made of.
#[derive(Clone, Copy)]
pub(crate) struct PlaceTile<'a, F> {
    /// Places; from 1 to [`PlaceElement::max_places`].
    pub places: usize,
    /// What each run of taps sees at the first place, and the distance to the next place.
    pub seen: &'a [*const F],
    pub first: usize,
    pub next: usize,
    /// The weights of each run of taps, where the columns of the tile begin in them, and the distance of steps of k.
    pub weights: &'a [*const F],
    pub column: usize,
    pub k_stride: usize,
    /// Products of each run.
    pub k: usize,
    /// The sums, as many for each place as the width says.
    pub sums: *mut F,
    /// Distance between the sums of two places.
    pub stride: usize,
}

/// A type that convolutions are computed in.
pub(crate) trait PlaceElement: Float {
    /// Numbers of a register.
    fn lanes(isa: Isa) -> usize;

    /// The most places of a tile.
    fn max_places(width: Width, isa: Isa) -> usize;

    /// The least width for so many columns, of at most two registers.
    fn width_of(columns: usize, isa: Isa) -> Width;

    /// Makes the sums of a tile.
    ///
    /// # Safety
    ///
    /// The pointers are valid for what the tile says, nobody else touches the sums, and the CPU has `isa`.
    unsafe fn sum_places(tile: &PlaceTile<'_, Self>, width: Width, isa: Isa);
}

/// Columns of a width.
pub(crate) fn columns_of(width: Width, lanes: usize) -> usize {
    match width {
        Width::Eight => 8 * lanes,
        Width::Four => 4 * lanes,
        Width::Two => 2 * lanes,
        Width::OneAndHalf => lanes + lanes / 2,
        Width::One => lanes,
    }
}

macro_rules! place_element {
    ($($type:ident: $portable:ty, $avx2:ident, $avx512:ident, $pairs:expr);*) => {$(
        impl PlaceElement for $type {
            fn lanes(isa: Isa) -> usize {
                match isa {
                    Isa::Portable => <$portable as Vector>::LANES,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => <std::arch::x86_64::$avx2 as Vector>::LANES,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => <std::arch::x86_64::$avx512 as Vector>::LANES,
                }
            }

            fn max_places(width: Width, isa: Isa) -> usize {
                match (isa, width) {
                    (_, Width::Eight) => 1,
                    #[cfg(target_arch = "x86_64")]
                    (Isa::Avx512, Width::Four) => 4,
                    (_, Width::Four) => 2,
                    (Isa::Portable, Width::One) => 8,
                    (Isa::Portable, _) => 4,
                    #[cfg(target_arch = "x86_64")]
                    (Isa::Avx2, Width::One) => 12,
                    #[cfg(target_arch = "x86_64")]
                    (Isa::Avx2, _) => 6,
                    #[cfg(target_arch = "x86_64")]
                    (Isa::Avx512, Width::OneAndHalf) => 16,
                    #[cfg(target_arch = "x86_64")]
                    (Isa::Avx512, _) => 14,
                }
            }

            fn width_of(columns: usize, isa: Isa) -> Width {
                let lanes = Self::lanes(isa);
                #[cfg(target_arch = "x86_64")]
                let pairs: Option<Pairs<Self>> = if isa == Isa::Avx512 { $pairs } else { None };
                #[cfg(not(target_arch = "x86_64"))]
                let pairs: Option<Pairs<Self>> = None;
                if columns <= lanes {
                    Width::One
                } else if columns <= lanes + lanes / 2 && pairs.is_some() {
                    Width::OneAndHalf
                } else {
                    Width::Two
                }
            }

            #[inline(always)]
            unsafe fn sum_places(tile: &PlaceTile<'_, Self>, width: Width, isa: Isa) {
                // SAFETY: passed on; the CPU has the features of the ISA.
                unsafe {
                    match isa {
                        Isa::Portable => of_width::<$portable, 2, 4, 8>(tile, width),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => with_avx2::<std::arch::x86_64::$avx2>(tile, width),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => match ($pairs, width) {
                            (Some(pairs), Width::OneAndHalf) => {
                                let pairs: Pairs<Self> = pairs;
                                pairs(tile);
                            }
                            _ => with_avx512::<std::arch::x86_64::$avx512>(tile, width),
                        },
                    }
                }
            }
        }
    )*};
}

/// A function for tiles of one and a half registers.
type Pairs<F> = unsafe fn(&PlaceTile<'_, F>);

place_element! {
    f32: Array<f32, 4>, __m256, __m512, Some(pairs::sum);
    f64: Array<f64, 2>, __m256d, __m512d, None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn with_avx2<V: Vector>(tile: &PlaceTile<'_, V::Number>, width: Width) {
    // SAFETY: passed on.
    unsafe { of_width::<V, 2, 6, 12>(tile, width) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f")]
unsafe fn with_avx512<V: Vector>(tile: &PlaceTile<'_, V::Number>, width: Width) {
    // SAFETY: passed on.
    unsafe { of_width::<V, 4, 14, 14>(tile, width) }
}

/// Picks the loop for the width and the number of places, of which there are at most `FEW`, `TWO` or `ONE`.
#[inline(always)]
unsafe fn of_width<V: Vector, const FEW: usize, const TWO: usize, const ONE: usize>(
    tile: &PlaceTile<'_, V::Number>,
    width: Width,
) {
    macro_rules! pick {
        ($vectors:literal, $most:ident: $($places:literal),*) => {
            match tile.places {
                $($places if $places <= $most => sum::<V, $places, $vectors>(tile),)*
                other => unreachable!("a tile of {other} places"),
            }
        };
    }
    // SAFETY: passed on.
    unsafe {
        match width {
            Width::Eight => pick!(8, ONE: 1),
            Width::Four => pick!(4, FEW: 1, 2, 3, 4),
            Width::Two => pick!(2, TWO: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
            Width::One => pick!(1, ONE: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
            Width::OneAndHalf => unreachable!("a tile of one and a half registers"),
        }
    }
}

#[inline(always)]
unsafe fn sum<V: Vector, const PLACES: usize, const VECTORS: usize>(
    tile: &PlaceTile<'_, V::Number>,
) {
    // SAFETY: sums, places and weights lie where the tile says; the last increments lead anywhere, for addresses that are
    // not read.
    unsafe {
        let mut sums = [[V::splat(V::Number::ZERO); VECTORS]; PLACES];
        for (seen, weights) in tile.seen.iter().zip(tile.weights) {
            let (mut seen, mut weights) = (seen.add(tile.first), weights.add(tile.column));
            for _ in 0..tile.k {
                let mut values = [V::splat(V::Number::ZERO); VECTORS];
                let ahead = weights.wrapping_add(AHEAD * tile.k_stride);
                for (vector, value) in values.iter_mut().enumerate() {
                    *value = V::load(weights.add(vector * V::LANES));
                    V::prefetch(ahead.wrapping_add(vector * V::LANES));
                }
                for (place, sums) in sums.iter_mut().enumerate() {
                    let seen = V::splat(*seen.add(place * tile.next));
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = sum.add_product(seen, value);
                    }
                }
                seen = seen.wrapping_add(1);
                weights = weights.wrapping_add(tile.k_stride);
            }
        }
        for (place, sums) in sums.iter().enumerate() {
            let to = tile.sums.add(place * tile.stride);
            for (vector, sum) in sums.iter().enumerate() {
                sum.store(to.add(vector * V::LANES));
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! The micro-kernel: the innermost loops, compiled for each ISA.

use half::{bf16, f16};

use super::direct;
use super::problem::Tile;
use super::vector::{Array, Vector, Widen};
use crate::kernels::conv::taps::{self, SeenPlaces};
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::Isa;

/// How far ahead the rhs is prefetched, in steps of k. The CPU's own prefetcher follows a packed panel too, but
/// begins anew at each page.
const AHEAD: usize = 16;

/// The largest micro-tile that the registers of an ISA hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Rows of a micro-tile at most.
    pub rows: usize,
    /// Columns of a panel of the rhs.
    pub columns: usize,
}

/// One micro-tile of the result and the panels of the operands that it is made of.
#[derive(Clone, Copy)]
pub(crate) struct MicroTile<T: StoredFloat> {
    /// Rows of the micro-tile; from 1 to [`Shape::rows`].
    pub rows: usize,
    /// Panels of the rhs that it spans; from 1 to what [`panels_together`] gives.
    pub panels: usize,
    /// Products to add to each element.
    pub k: usize,
    /// The number of row 0 in the first group.
    pub lhs: *const T::Compute,
    /// Strides of rows and of k of the lhs.
    pub lhs_row_stride: usize,
    pub lhs_k_stride: usize,
    /// `k` groups of [`Shape::columns`] elements.
    pub rhs: *const T,
    /// Elements between steps of k of the rhs.
    pub rhs_k_stride: usize,
    /// Elements between panels of the rhs.
    pub rhs_panel_stride: usize,
    /// The sums, [`Shape::columns`] of each panel one after another in each row.
    pub sums: *mut T::Compute,
    /// Distance between rows of sums.
    pub stride: usize,
    /// Whether the products begin the sums, which then need not be initialized.
    pub begin: bool,
}

/// How many panels a micro-tile of few rows spans, so that enough sums are under way at once to hide the
/// time that one addition takes.
pub(crate) fn panels_together(rows: usize, isa: Isa) -> usize {
    match (rows, isa) {
        (1, _) => 4,
        (2, _) => 2,
        #[cfg(target_arch = "x86_64")]
        (3 | 4, Isa::Avx512) => 2,
        _ => 1,
    }
}

/// An element type that products are made of.
pub(crate) trait GemmElement: StoredFloat {
    /// The micro-tiles of an ISA.
    fn shape(isa: Isa) -> Shape;

    /// Adds the products of a micro-tile to its sums.
    ///
    /// # Safety
    ///
    /// The pointers are valid for the sizes given at each, and the CPU has `isa`.
    unsafe fn add(micro_tile: MicroTile<Self>, isa: Isa);

    /// Adds all products of a tile to its sums, without packing.
    ///
    /// # Safety
    ///
    /// As for [`direct::add_rows`], and the CPU has `isa`.
    unsafe fn add_rows(tile: &Tile<'_, Self>, sums: &mut [Self::Compute], isa: Isa);

    /// Computes some places of a depthwise convolution from what its taps see.
    ///
    /// # Safety
    ///
    /// As for [`taps::sum`], and the CPU has `isa`.
    unsafe fn sum_taps(seen: &SeenPlaces<'_, Self::Compute>, sums: &mut [Self::Compute], isa: Isa);
}

macro_rules! gemm_element {
    ($($type:ty: $portable:ty, $avx2:ident, $avx512:ident);*) => {
        $(
            impl GemmElement for $type {
                fn shape(isa: Isa) -> Shape {
                    let (rows, lanes) = match isa {
                        Isa::Portable => (4, <$portable as Vector>::LANES),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => (6, <std::arch::x86_64::$avx2 as Vector>::LANES),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => (14, <std::arch::x86_64::$avx512 as Vector>::LANES),
                    };
                    Shape { rows, columns: lanes * VECTORS }
                }

                #[inline(always)]
                unsafe fn add(micro_tile: MicroTile<Self>, isa: Isa) {
                    // SAFETY: passed on; the CPU has the features of the ISA.
                    unsafe {
                        match isa {
                            Isa::Portable => add_rows::<$portable, Self, 4>(micro_tile),
                            #[cfg(target_arch = "x86_64")]
                            Isa::Avx2 => {
                                with_avx2::<std::arch::x86_64::$avx2, Self>(micro_tile);
                            }
                            #[cfg(target_arch = "x86_64")]
                            Isa::Avx512 => {
                                with_avx512::<std::arch::x86_64::$avx512, Self>(micro_tile);
                            }
                        }
                    }
                }

                unsafe fn sum_taps(
                    seen: &SeenPlaces<'_, Self::Compute>,
                    sums: &mut [Self::Compute],
                    isa: Isa,
                ) {
                    // SAFETY: passed on; the CPU has the features of the ISA.
                    unsafe {
                        match isa {
                            Isa::Portable => taps::sum::<$portable, { taps::SOME }>(seen, sums),
                            #[cfg(target_arch = "x86_64")]
                            Isa::Avx2 => {
                                type V = std::arch::x86_64::$avx2;
                                taps_with_avx2::<V>(seen, sums);
                            }
                            #[cfg(target_arch = "x86_64")]
                            Isa::Avx512 => {
                                type V = std::arch::x86_64::$avx512;
                                taps_with_avx512::<V>(seen, sums);
                            }
                        }
                    }
                }

                unsafe fn add_rows(
                    tile: &Tile<'_, Self>,
                    sums: &mut [Self::Compute],
                    isa: Isa,
                ) {
                    // SAFETY: passed on; the CPU has the features of the ISA.
                    unsafe {
                        match isa {
                            Isa::Portable => direct::add_rows::<$portable, Self>(tile, sums),
                            #[cfg(target_arch = "x86_64")]
                            Isa::Avx2 => {
                                rows_with_avx2::<std::arch::x86_64::$avx2, Self>(tile, sums);
                            }
                            #[cfg(target_arch = "x86_64")]
                            Isa::Avx512 => {
                                rows_with_avx512::<std::arch::x86_64::$avx512, Self>(tile, sums);
                            }
                        }
                    }
                }
            }
        )*
    };
}

gemm_element! {
    f32: Array<f32, 4>, __m256, __m512;
    f16: Array<f32, 4>, __m256, __m512;
    bf16: Array<f32, 4>, __m256, __m512;
    f64: Array<f64, 2>, __m256d, __m512d
}

/// Registers that a panel is wide.
const VECTORS: usize = 2;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn with_avx2<V: Widen<T> + Vector<Number = T::Compute>, T: StoredFloat>(
    micro_tile: MicroTile<T>,
) {
    // SAFETY: passed on.
    unsafe { add_rows::<V, T, 6>(micro_tile) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f")]
unsafe fn with_avx512<V: Widen<T> + Vector<Number = T::Compute>, T: StoredFloat>(
    micro_tile: MicroTile<T>,
) {
    // SAFETY: passed on.
    unsafe { add_rows::<V, T, 14>(micro_tile) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn rows_with_avx2<V: Vector, T: StoredFloat<Compute = V::Number>>(
    tile: &Tile<'_, T>,
    sums: &mut [T::Compute],
) {
    // SAFETY: passed on.
    unsafe { direct::add_rows::<V, T>(tile, sums) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f")]
unsafe fn rows_with_avx512<V: Vector, T: StoredFloat<Compute = V::Number>>(
    tile: &Tile<'_, T>,
    sums: &mut [T::Compute],
) {
    // SAFETY: passed on.
    unsafe { direct::add_rows::<V, T>(tile, sums) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn taps_with_avx2<V: Vector>(seen: &SeenPlaces<'_, V::Number>, sums: &mut [V::Number]) {
    // SAFETY: passed on.
    unsafe { taps::sum::<V, { taps::SOME }>(seen, sums) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f")]
unsafe fn taps_with_avx512<V: Vector>(seen: &SeenPlaces<'_, V::Number>, sums: &mut [V::Number]) {
    // SAFETY: passed on.
    unsafe {
        if seen.taps.len() >= taps::MANY_TAPS {
            taps::sum::<V, { taps::MANY }>(seen, sums);
        } else {
            taps::sum::<V, { taps::SOME }>(seen, sums);
        }
    }
}

/// Picks the loop for the number of rows and panels.
#[inline(always)]
unsafe fn add_rows<V: Widen<T> + Vector<Number = T::Compute>, T: StoredFloat, const MOST: usize>(
    micro_tile: MicroTile<T>,
) {
    macro_rules! pick {
        ($($rows:literal),*) => {
            match micro_tile.rows {
                $($rows if $rows <= MOST => add::<V, T, $rows, 1>(micro_tile),)*
                other => unreachable!("a micro-tile of {other} rows"),
            }
        };
    }
    // SAFETY: passed on.
    unsafe {
        match (micro_tile.panels, micro_tile.rows) {
            (1, _) => pick!(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
            (4, 1) => add::<V, T, 1, 4>(micro_tile),
            (2, 2) => add::<V, T, 2, 2>(micro_tile),
            (2, 3) => add::<V, T, 3, 2>(micro_tile),
            (2, 4) => add::<V, T, 4, 2>(micro_tile),
            other => unreachable!("a micro-tile of {other:?} panels and rows"),
        }
    }
}

#[inline(always)]
unsafe fn add<V, T, const ROWS: usize, const PANELS: usize>(micro_tile: MicroTile<T>)
where
    V: Widen<T> + Vector<Number = T::Compute>,
    T: StoredFloat,
{
    let columns = VECTORS * V::LANES;
    let row = |row: usize| micro_tile.sums.wrapping_add(row * micro_tile.stride);
    // SAFETY: sums and groups lie where the micro-tile says; the last increments lead at most one past
    // the end, or anywhere for an address that is only prefetched.
    unsafe {
        // The sums stay in registers from the first product to the last.
        let mut sums = [[[V::splat(T::Compute::ZERO); VECTORS]; PANELS]; ROWS];
        if micro_tile.begin {
            for index in 0..ROWS {
                for panel in 0..PANELS {
                    V::prefetch(row(index).add(panel * columns));
                    V::prefetch(row(index).add(panel * columns + columns - 1));
                }
            }
        } else {
            for (index, sums) in sums.iter_mut().enumerate() {
                for (panel, sums) in sums.iter_mut().enumerate() {
                    for (vector, sum) in sums.iter_mut().enumerate() {
                        *sum = V::load(row(index).add(panel * columns + vector * V::LANES));
                    }
                }
            }
        }
        let (mut lhs, mut rhs) = (micro_tile.lhs, micro_tile.rhs);
        for _ in 0..micro_tile.k {
            let mut values = [[V::splat(T::Compute::ZERO); VECTORS]; PANELS];
            for (panel, values) in values.iter_mut().enumerate() {
                let rhs = rhs.add(panel * micro_tile.rhs_panel_stride);
                for (vector, value) in values.iter_mut().enumerate() {
                    *value = V::widen(rhs.add(vector * V::LANES));
                }
                let ahead = rhs.wrapping_add(AHEAD * micro_tile.rhs_k_stride);
                V::prefetch(ahead);
                if columns * size_of::<T>() > 64 {
                    V::prefetch(ahead.wrapping_byte_add(64));
                }
            }
            for (index, sums) in sums.iter_mut().enumerate() {
                let lhs = V::splat(*lhs.add(index * micro_tile.lhs_row_stride));
                for (sums, values) in sums.iter_mut().zip(values) {
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = sum.add_product(lhs, value);
                    }
                }
            }
            lhs = lhs.wrapping_add(micro_tile.lhs_k_stride);
            rhs = rhs.wrapping_add(micro_tile.rhs_k_stride);
        }
        for (index, sums) in sums.iter().enumerate() {
            for (panel, sums) in sums.iter().enumerate() {
                for (vector, sum) in sums.iter().enumerate() {
                    sum.store(row(index).add(panel * columns + vector * V::LANES));
                }
            }
        }
    }
}

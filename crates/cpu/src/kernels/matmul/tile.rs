//! The innermost loops, compiled for each machine.

use half::{bf16, f16};

use super::direct;
use super::problem::Block;
use super::vector::{Array, Vector, Widen};
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::Machine;

/// How far ahead of its use the right factor is asked for, in groups. The machine's own prefetch
/// follows a packed panel too, but begins anew at each page.
const AHEAD: usize = 16;

/// The largest tile that the registers of a machine hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Rows of a tile at most.
    pub rows: usize,
    /// Columns of a panel of the right factor.
    pub columns: usize,
}

/// One tile of the result and the panels of the factors that it is made of.
#[derive(Clone, Copy)]
pub(crate) struct Tile<T: StoredFloat> {
    /// Rows of the tile; from 1 to [`Shape::rows`].
    pub rows: usize,
    /// Panels of the right factor that it spans; from 1 to what [`panels_together`] gives.
    pub panels: usize,
    /// Products to add to each element.
    pub depth: usize,
    /// The number of row 0 in the first group.
    pub left: *const T::Compute,
    /// Distances between the rows and between the groups of the left factor.
    pub left_row: usize,
    pub left_step: usize,
    /// `depth` groups of [`Shape::columns`] elements.
    pub right: *const T,
    /// Elements between groups of the right factor.
    pub group_stride: usize,
    /// Elements between panels of the right factor.
    pub panel_stride: usize,
    /// The sums, [`Shape::columns`] of each panel one after another in each row.
    pub sums: *mut T::Compute,
    /// Distance between rows of sums.
    pub stride: usize,
    /// Whether the products begin the sums, which then need not be initialised.
    pub begin: bool,
}

/// How many panels a tile of few rows spans, so that enough sums are under way at once to hide the
/// time that one addition takes.
pub(crate) fn panels_together(rows: usize, machine: Machine) -> usize {
    match (rows, machine) {
        (1, _) => 4,
        (2, _) => 2,
        #[cfg(target_arch = "x86_64")]
        (3 | 4, Machine::Avx512) => 2,
        _ => 1,
    }
}

/// An element type that products are made of.
pub(crate) trait Multiplied: StoredFloat {
    /// The tiles of a machine.
    fn shape(machine: Machine) -> Shape;

    /// Adds the products of a tile to its sums.
    ///
    /// # Safety
    ///
    /// The pointers are valid for the sizes given at each, and `machine` is the one at hand or one
    /// that it can stand in for.
    unsafe fn add(tile: Tile<Self>, machine: Machine);

    /// Adds all products of a block to its sums, without packing.
    ///
    /// # Safety
    ///
    /// As for [`direct::add_rows`], and `machine` is the one at hand or one that it can stand in for.
    unsafe fn add_rows(block: &Block<'_, Self>, sums: &mut [Self::Compute], machine: Machine);
}

macro_rules! multiplied {
    ($($type:ty: $portable:ty, $avx2:ident, $avx512:ident);*) => {
        $(
            impl Multiplied for $type {
                fn shape(machine: Machine) -> Shape {
                    let (rows, lanes) = match machine {
                        Machine::Portable => (4, <$portable as Vector>::LANES),
                        #[cfg(target_arch = "x86_64")]
                        Machine::Avx2 => (6, <std::arch::x86_64::$avx2 as Vector>::LANES),
                        #[cfg(target_arch = "x86_64")]
                        Machine::Avx512 => (14, <std::arch::x86_64::$avx512 as Vector>::LANES),
                    };
                    Shape { rows, columns: lanes * VECTORS }
                }

                #[inline(always)]
                unsafe fn add(tile: Tile<Self>, machine: Machine) {
                    // SAFETY: passed on; the machine has the features of its name.
                    unsafe {
                        match machine {
                            Machine::Portable => add_rows::<$portable, Self, 4>(tile),
                            #[cfg(target_arch = "x86_64")]
                            Machine::Avx2 => {
                                with_avx2::<std::arch::x86_64::$avx2, Self>(tile);
                            }
                            #[cfg(target_arch = "x86_64")]
                            Machine::Avx512 => {
                                with_avx512::<std::arch::x86_64::$avx512, Self>(tile);
                            }
                        }
                    }
                }

                unsafe fn add_rows(
                    block: &Block<'_, Self>,
                    sums: &mut [Self::Compute],
                    machine: Machine,
                ) {
                    // SAFETY: passed on; the machine has the features of its name.
                    unsafe {
                        match machine {
                            Machine::Portable => direct::add_rows::<$portable, Self>(block, sums),
                            #[cfg(target_arch = "x86_64")]
                            Machine::Avx2 => {
                                rows_with_avx2::<std::arch::x86_64::$avx2, Self>(block, sums);
                            }
                            #[cfg(target_arch = "x86_64")]
                            Machine::Avx512 => {
                                rows_with_avx512::<std::arch::x86_64::$avx512, Self>(block, sums);
                            }
                        }
                    }
                }
            }
        )*
    };
}

multiplied! {
    f32: Array<f32, 4>, __m256, __m512;
    f16: Array<f32, 4>, __m256, __m512;
    bf16: Array<f32, 4>, __m256, __m512;
    f64: Array<f64, 2>, __m256d, __m512d
}

/// Registers that a panel is wide.
const VECTORS: usize = 2;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn with_avx2<V: Widen<T> + Vector<Number = T::Compute>, T: StoredFloat>(tile: Tile<T>) {
    // SAFETY: passed on.
    unsafe { add_rows::<V, T, 6>(tile) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f")]
unsafe fn with_avx512<V: Widen<T> + Vector<Number = T::Compute>, T: StoredFloat>(tile: Tile<T>) {
    // SAFETY: passed on.
    unsafe { add_rows::<V, T, 14>(tile) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn rows_with_avx2<V: Vector, T: StoredFloat<Compute = V::Number>>(
    block: &Block<'_, T>,
    sums: &mut [T::Compute],
) {
    // SAFETY: passed on.
    unsafe { direct::add_rows::<V, T>(block, sums) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f")]
unsafe fn rows_with_avx512<V: Vector, T: StoredFloat<Compute = V::Number>>(
    block: &Block<'_, T>,
    sums: &mut [T::Compute],
) {
    // SAFETY: passed on.
    unsafe { direct::add_rows::<V, T>(block, sums) }
}

/// Picks the loop for the number of rows and panels.
#[inline(always)]
unsafe fn add_rows<V: Widen<T> + Vector<Number = T::Compute>, T: StoredFloat, const MOST: usize>(
    tile: Tile<T>,
) {
    macro_rules! pick {
        ($($rows:literal),*) => {
            match tile.rows {
                $($rows if $rows <= MOST => add::<V, T, $rows, 1>(tile),)*
                other => unreachable!("a tile of {other} rows"),
            }
        };
    }
    // SAFETY: passed on.
    unsafe {
        match (tile.panels, tile.rows) {
            (1, _) => pick!(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
            (4, 1) => add::<V, T, 1, 4>(tile),
            (2, 2) => add::<V, T, 2, 2>(tile),
            (2, 3) => add::<V, T, 3, 2>(tile),
            (2, 4) => add::<V, T, 4, 2>(tile),
            other => unreachable!("a tile of {other:?} panels and rows"),
        }
    }
}

#[inline(always)]
unsafe fn add<V, T, const ROWS: usize, const PANELS: usize>(tile: Tile<T>)
where
    V: Widen<T> + Vector<Number = T::Compute>,
    T: StoredFloat,
{
    let columns = VECTORS * V::LANES;
    let row = |row: usize| tile.sums.wrapping_add(row * tile.stride);
    // SAFETY: sums and groups lie where the tile says; the last increments lead at most one past
    // the end, or anywhere for an address that is only prefetched.
    unsafe {
        // The sums stay in registers from the first product to the last.
        let mut sums = [[[V::splat(T::Compute::ZERO); VECTORS]; PANELS]; ROWS];
        if tile.begin {
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
        let (mut left, mut right) = (tile.left, tile.right);
        for _ in 0..tile.depth {
            let mut values = [[V::splat(T::Compute::ZERO); VECTORS]; PANELS];
            for (panel, values) in values.iter_mut().enumerate() {
                let right = right.add(panel * tile.panel_stride);
                for (vector, value) in values.iter_mut().enumerate() {
                    *value = V::widen(right.add(vector * V::LANES));
                }
                let ahead = right.wrapping_add(AHEAD * tile.group_stride);
                V::prefetch(ahead);
                if columns * size_of::<T>() > 64 {
                    V::prefetch(ahead.wrapping_byte_add(64));
                }
            }
            for (index, sums) in sums.iter_mut().enumerate() {
                let factor = V::splat(*left.add(index * tile.left_row));
                for (sums, values) in sums.iter_mut().zip(values) {
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = sum.add_product(factor, value);
                    }
                }
            }
            left = left.wrapping_add(tile.left_step);
            right = right.wrapping_add(tile.group_stride);
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

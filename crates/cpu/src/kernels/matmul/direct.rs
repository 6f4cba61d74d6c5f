//! Products of so few rows that packing the rhs would cost more than it saves.

use std::ops::Range;

use super::epilogue::{apply_epilogue, store};
use super::micro_kernel::GemmElement;
use super::problem::{Problem, Tile};
use super::scratch::{SUMS, with_area};
use super::vector::Vector;
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::Isa;

/// Up to so many rows, the rhs is used where it lies if its rows are dense.
const FEW_ROWS: usize = 3;

/// Whether a product is computed without packing.
pub(super) fn suits<T: StoredFloat>(problem: &Problem<'_, T>) -> bool {
    T::DIRECT && problem.rows <= FEW_ROWS && problem.rhs_is_dense()
}

/// Computes some columns of a product, reading the rhs from the first row to the last.
///
/// # Safety
///
/// Nobody else touches the columns of the output, the product [suits](suits), and the CPU has
/// the ISA.
pub(super) unsafe fn compute<T: GemmElement>(
    problem: &Problem<'_, T>,
    batch: usize,
    columns: Range<usize>,
    isa: Isa,
) -> Result {
    let tile = problem.tile(batch, 0..problem.rows, columns);
    with_area::<T::Compute, _>(&SUMS, tile.rows * tile.columns, None, |sums, _| {
        // SAFETY: the area has this size, and any bytes in it are numbers.
        let sums = unsafe { std::slice::from_raw_parts_mut(sums, tile.rows * tile.columns) };
        sums.fill(T::Compute::ZERO);
        // SAFETY: passed on.
        unsafe {
            T::add_rows(&tile, sums, isa);
            for (row, sums) in sums.chunks_exact_mut(tile.columns).enumerate() {
                apply_epilogue(&tile, row, sums);
                store(&tile.dst, row, sums);
            }
        }
    })
}

/// Adds all products to the sums of a tile, row by row of the rhs.
///
/// # Safety
///
/// The rhs has dense rows of the type computed in, the sums are as many as the tile has
/// elements, and the CPU has the registers.
#[inline(always)]
pub(super) unsafe fn add_rows<V: Vector, T: StoredFloat<Compute = V::Number>>(
    tile: &Tile<'_, T>,
    sums: &mut [T::Compute],
) {
    let whole = tile.columns - tile.columns % V::LANES;
    for index in 0..tile.k {
        for row in 0..tile.rows {
            let sums = sums[row * tile.columns..][..tile.columns].as_mut_ptr();
            // SAFETY: row and column belong to the operands and to the sums.
            unsafe {
                let values = tile.rhs.at(index, 0).cast_const().cast::<T::Compute>();
                let lhs = V::splat(tile.lhs.at(row, index).read().widen());
                for column in (0..whole).step_by(V::LANES) {
                    let sum = V::load(sums.add(column));
                    sum.add_product(lhs, V::load(values.add(column))).store(sums.add(column));
                }
                if whole < tile.columns {
                    let rest = tile.columns - whole;
                    add_rest(lhs, values.add(whole), sums.add(whole), rest);
                }
            }
        }
    }
}

/// The end of a row, which does not fill a register. The same instruction as for the rest, so that
/// the bits of a column do not depend on the number of columns.
#[inline(always)]
unsafe fn add_rest<V: Vector>(
    lhs: V,
    values: *const V::Number,
    sums: *mut V::Number,
    count: usize,
) {
    const MOST: usize = 16;
    debug_assert!(count < V::LANES && V::LANES <= MOST);
    let (mut some_values, mut some_sums) = ([V::Number::ZERO; MOST], [V::Number::ZERO; MOST]);
    // SAFETY: `count` elements are valid on both sides, and fewer than the arrays have.
    unsafe {
        some_values.as_mut_ptr().copy_from_nonoverlapping(values, count);
        some_sums.as_mut_ptr().copy_from_nonoverlapping(sums, count);
        let sum = V::load(some_sums.as_ptr());
        let sum = sum.add_product(lhs, V::load(some_values.as_ptr()));
        sum.store(some_sums.as_mut_ptr());
        sums.copy_from_nonoverlapping(some_sums.as_ptr(), count);
    }
}

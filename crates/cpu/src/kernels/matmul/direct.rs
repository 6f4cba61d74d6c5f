//! Products of so few rows that packing the right factor would cost more than it saves.

use std::ops::Range;

use super::epilogue::{finish, store};
use super::problem::{Block, Problem};
use super::scratch::{SUMS, with_area};
use super::tile::Multiplied;
use super::vector::Vector;
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::Machine;

/// Up to so many rows, the right factor is used where it lies if its rows are dense.
const FEW_ROWS: usize = 3;

/// Whether a product is computed without packing.
pub(super) fn suits<T: StoredFloat>(problem: &Problem<'_, T>) -> bool {
    T::DIRECT && problem.rows <= FEW_ROWS && problem.right_is_dense()
}

/// Computes some columns of a product, reading the right factor from the first row to the last.
///
/// # Safety
///
/// Nobody else touches the columns of the output, the product [suits](suits), and the machine is at
/// hand.
pub(super) unsafe fn compute<T: Multiplied>(
    problem: &Problem<'_, T>,
    batch: usize,
    columns: Range<usize>,
    machine: Machine,
) -> Result {
    let block = problem.block(batch, 0..problem.rows, columns);
    with_area::<T::Compute, _>(&SUMS, block.rows * block.columns, None, |sums, _| {
        // SAFETY: the area has this size, and any bytes in it are numbers.
        let sums = unsafe { std::slice::from_raw_parts_mut(sums, block.rows * block.columns) };
        sums.fill(T::Compute::ZERO);
        // SAFETY: passed on.
        unsafe {
            T::add_rows(&block, sums, machine);
            for (row, sums) in sums.chunks_exact_mut(block.columns).enumerate() {
                finish(&block, row, sums);
                store(&block.dst, row, sums);
            }
        }
    })
}

/// Adds all products to the sums of a block, row by row of the right factor.
///
/// # Safety
///
/// The right factor has dense rows of the type computed in, the sums are as many as the block has
/// elements, and the machine has the registers.
#[inline(always)]
pub(super) unsafe fn add_rows<V: Vector, T: StoredFloat<Compute = V::Number>>(
    block: &Block<'_, T>,
    sums: &mut [T::Compute],
) {
    let whole = block.columns - block.columns % V::LANES;
    for index in 0..block.depth {
        for row in 0..block.rows {
            let sums = sums[row * block.columns..][..block.columns].as_mut_ptr();
            // SAFETY: row and column belong to the factors and to the sums.
            unsafe {
                let values = block.right.at(index, 0).cast_const().cast::<T::Compute>();
                let factor = V::splat(block.left.at(row, index).read().widen());
                for column in (0..whole).step_by(V::LANES) {
                    let sum = V::load(sums.add(column));
                    sum.add_product(factor, V::load(values.add(column))).store(sums.add(column));
                }
                if whole < block.columns {
                    let rest = block.columns - whole;
                    add_rest(factor, values.add(whole), sums.add(whole), rest);
                }
            }
        }
    }
}

/// The end of a row, which does not fill a register. The same instruction as for the rest, so that
/// the bits of a column do not depend on the number of columns.
#[inline(always)]
unsafe fn add_rest<V: Vector>(
    factor: V,
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
        let sum = sum.add_product(factor, V::load(some_values.as_ptr()));
        sum.store(some_sums.as_mut_ptr());
        sums.copy_from_nonoverlapping(some_sums.as_ptr(), count);
    }
}

//! Computes one block of a product.

use super::super::number::{Float, StoredFloat};
use super::super::simd::Machine;
use super::epilogue::finish;
use super::pack::pack;
use super::problem::Block;
use super::scratch::with_areas;
use super::tile::{Tile, add_row};

/// Products that are packed and added at a time.
const BLOCK_DEPTH: usize = 256;

/// Up to so many rows, the right factor is used where it lies if its rows are dense.
const FEW_ROWS: usize = 3;

/// Computes a block with tiles of `ROWS` × `COLUMNS`.
///
/// # Safety
///
/// Nobody else touches the block of the output, and `machine` is the one at hand.
pub(super) unsafe fn compute<T: StoredFloat, const ROWS: usize, const COLUMNS: usize>(
    block: &Block<'_, T>,
    machine: Machine,
) {
    let rows = block.rows.next_multiple_of(ROWS);
    let stride = block.columns.next_multiple_of(COLUMNS);
    let depth = block.depth.min(BLOCK_DEPTH);
    let direct = T::DIRECT && block.rows <= FEW_ROWS && block.right.column_stride() == 1;
    let sizes =
        if direct { [rows * stride, 0, 0] } else { [rows * stride, rows * depth, stride * depth] };
    with_areas::<T::Compute, _>(sizes, |[sums, left, right]| {
        sums[..rows * stride].fill(T::Compute::ZERO);
        // SAFETY: passed on.
        unsafe {
            if direct {
                by_rows(block, machine, sums, stride);
            } else {
                by_tiles::<T, ROWS, COLUMNS>(block, machine, sums, stride, left, right);
            }
            finish(block, sums, stride);
        }
    });
}

unsafe fn by_tiles<T: StoredFloat, const ROWS: usize, const COLUMNS: usize>(
    block: &Block<'_, T>,
    machine: Machine,
    sums: &mut [T::Compute],
    stride: usize,
    left: &mut [T::Compute],
    right: &mut [T::Compute],
) {
    for first in (0..block.depth).step_by(BLOCK_DEPTH) {
        let depth = BLOCK_DEPTH.min(block.depth - first);
        // SAFETY: the parts that are packed belong to the factors.
        unsafe {
            pack::<T, ROWS>(&block.left.transposed(), first, depth, block.rows, left);
            pack::<T, COLUMNS>(&block.right, first, depth, block.columns, right);
        }
        // A panel of the right factor stays in the first-level cache while all of the left passes.
        for column in (0..block.columns).step_by(COLUMNS) {
            let right = right[column * depth..][..COLUMNS * depth].as_ptr();
            for row in (0..block.rows).step_by(ROWS) {
                let left = left[row * depth..][..ROWS * depth].as_ptr();
                let sums = &mut sums[row * stride + column..][..(ROWS - 1) * stride + COLUMNS];
                let rows = ROWS.min(block.rows - row);
                let tile = Tile { rows, depth, left, right, sums: sums.as_mut_ptr(), stride };
                // SAFETY: the slices above have the sizes that a tile asks for.
                unsafe { tile.add::<ROWS, COLUMNS>(machine) };
            }
        }
    }
}

/// Streams the right factor once from the first row to the last.
unsafe fn by_rows<T: StoredFloat>(
    block: &Block<'_, T>,
    machine: Machine,
    sums: &mut [T::Compute],
    stride: usize,
) {
    for index in 0..block.depth {
        // SAFETY: the row belongs to the right factor, is dense, of the type computed in, and
        // nobody writes it.
        let values = unsafe {
            let first = block.right.at(index, 0).cast_const().cast::<T::Compute>();
            std::slice::from_raw_parts(first, block.columns)
        };
        for row in 0..block.rows {
            // SAFETY: the element belongs to the left factor.
            let factor = unsafe { block.left.at(row, index).read() }.widen();
            add_row(machine, factor, values, &mut sums[row * stride..][..block.columns]);
        }
    }
}

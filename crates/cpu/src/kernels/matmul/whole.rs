//! Products of integers, whose sums wrap around and are the same in any order.

use super::problem::{Block, Problem};
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::integer::Int;
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::{Plain, with_areas};
use crate::kernels::shared::simd::{Job, vectorised};

/// Rows and columns of a block of the result, and how much of the depth is packed at a time.
const BLOCK_ROWS: usize = 64;
const BLOCK_COLUMNS: usize = 64;
const BLOCK_DEPTH: usize = 256;

/// Rows and columns whose sums are kept in registers.
const ROWS: usize = 4;
const COLUMNS: usize = 16;

/// Multiplications that take about as long as one element of simple work.
const PRODUCTS_PER_ELEMENT: usize = 4;

/// Computes all products of a problem.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn run<T: Int + Plain>(problem: &Problem<T>, parallel: &dyn Parallel) -> Result {
    let (down, across) =
        (problem.rows.div_ceil(BLOCK_ROWS), problem.columns.div_ceil(BLOCK_COLUMNS));
    let area = problem.rows.min(BLOCK_ROWS) * problem.columns.min(BLOCK_COLUMNS);
    let work = area.saturating_mul(problem.depth) / PRODUCTS_PER_ELEMENT + area;
    try_share(parallel, problem.batches() * down * across, work, |range| {
        for index in range {
            let (batch, index) = (index / (down * across), index % (down * across));
            let (row, column) = (index / across * BLOCK_ROWS, index % across * BLOCK_COLUMNS);
            let rows = row..(row + BLOCK_ROWS).min(problem.rows);
            let columns = column..(column + BLOCK_COLUMNS).min(problem.columns);
            // SAFETY: blocks are disjoint parts of the output; the rest is passed on.
            unsafe { compute(&problem.block(batch, rows, columns))? };
        }
        Ok(())
    })
}

unsafe fn compute<T: Int + Plain>(block: &Block<T>) -> Result {
    let sizes = [BLOCK_ROWS * BLOCK_COLUMNS, BLOCK_ROWS * BLOCK_DEPTH, BLOCK_DEPTH * BLOCK_COLUMNS];
    with_areas(sizes, |[sums, left, right]: [&mut [T]; 3]| {
        sums.fill(T::ZERO);
        for first in (0..block.depth).step_by(BLOCK_DEPTH) {
            let depth = BLOCK_DEPTH.min(block.depth - first);
            // SAFETY: passed on.
            unsafe { pack(block, first, depth, left, right) };
            for tile in 0..block.rows.div_ceil(ROWS) {
                let left = &left[tile * ROWS * BLOCK_DEPTH..][..depth * ROWS];
                let sums = &mut sums[tile * ROWS * BLOCK_COLUMNS..][..ROWS * BLOCK_COLUMNS];
                vectorised(Tile { left, right: &right[..depth * BLOCK_COLUMNS], sums });
            }
        }
        for row in 0..block.rows {
            for column in 0..block.columns {
                let mut value = sums[row * BLOCK_COLUMNS + column];
                for added in [&block.bias, &block.residual].into_iter().flatten() {
                    // SAFETY: the element belongs to the operand.
                    value = value.add(unsafe { added.at(row, column).read() });
                }
                // SAFETY: the element belongs to the block, which nobody else has.
                unsafe { block.dst.at(row, column).write(value) };
            }
        }
    })
}

/// Copies a part of the depth of both factors to where tiles read it: of the left one, rows of a tile side by side;
/// of the right one, rows of a fixed length. What is not there is 0.
///
/// # Safety
///
/// The factors have so much depth.
unsafe fn pack<T: Int>(
    block: &Block<T>,
    first: usize,
    depth: usize,
    left: &mut [T],
    right: &mut [T],
) {
    // SAFETY: all elements belong to the factors.
    unsafe {
        for row in 0..block.rows.next_multiple_of(ROWS) {
            let tile = &mut left[row / ROWS * ROWS * BLOCK_DEPTH..];
            for k in 0..depth {
                tile[k * ROWS + row % ROWS] = match row < block.rows {
                    true => block.left.at(row, first + k).read(),
                    false => T::ZERO,
                };
            }
        }
        for (k, to) in right.chunks_mut(BLOCK_COLUMNS).take(depth).enumerate() {
            for (column, to) in to[..block.columns].iter_mut().enumerate() {
                *to = block.right.at(first + k, column).read();
            }
            to[block.columns..].fill(T::ZERO);
        }
    }
}

/// Adds the products of some rows with all columns.
struct Tile<'a, T> {
    left: &'a [T],
    right: &'a [T],
    sums: &'a mut [T],
}

impl<T: Int> Job for Tile<'_, T> {
    #[inline(always)]
    fn run(self) {
        for column in (0..BLOCK_COLUMNS).step_by(COLUMNS) {
            let mut sums = [[T::ZERO; COLUMNS]; ROWS];
            let depth = self.left.as_chunks::<ROWS>().0.iter();
            for (left, right) in depth.zip(self.right.chunks_exact(BLOCK_COLUMNS)) {
                let right = &right[column..column + COLUMNS];
                for (sums, &left) in sums.iter_mut().zip(left) {
                    for (sum, &right) in sums.iter_mut().zip(right) {
                        *sum = sum.add(left.mul(right));
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                let to = &mut self.sums[row * BLOCK_COLUMNS + column..][..COLUMNS];
                for (to, &sum) in to.iter_mut().zip(sums) {
                    *to = to.add(sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

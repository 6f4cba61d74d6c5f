//! Products of integers, whose sums wrap around and are the same in any order.

use super::problem::{Problem, Tile};
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::integer::Int;
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::{Plain, with_areas};
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// Rows and columns of a tile of the result, and how much of k is packed at a time.
const TILE_ROWS: usize = 64;
const TILE_COLUMNS: usize = 64;
const TILE_K: usize = 256;

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
    let (down, across) = (problem.rows.div_ceil(TILE_ROWS), problem.columns.div_ceil(TILE_COLUMNS));
    let area = problem.rows.min(TILE_ROWS) * problem.columns.min(TILE_COLUMNS);
    let work = area.saturating_mul(problem.k) / PRODUCTS_PER_ELEMENT + area;
    try_share(parallel, problem.batches() * down * across, work, |range| {
        for index in range {
            let (batch, index) = (index / (down * across), index % (down * across));
            let (row, column) = (index / across * TILE_ROWS, index % across * TILE_COLUMNS);
            let rows = row..(row + TILE_ROWS).min(problem.rows);
            let columns = column..(column + TILE_COLUMNS).min(problem.columns);
            // SAFETY: tiles are disjoint parts of the output; the rest is passed on.
            unsafe { compute(&problem.tile(batch, rows, columns))? };
        }
        Ok(())
    })
}

unsafe fn compute<T: Int + Plain>(tile: &Tile<T>) -> Result {
    let sizes = [TILE_ROWS * TILE_COLUMNS, TILE_ROWS * TILE_K, TILE_K * TILE_COLUMNS];
    with_areas(sizes, |[sums, lhs, rhs]: [&mut [T]; 3]| {
        sums.fill(T::ZERO);
        for first in (0..tile.k).step_by(TILE_K) {
            let k = TILE_K.min(tile.k - first);
            // SAFETY: passed on.
            unsafe { pack(tile, first, k, lhs, rhs) };
            for micro_tile in 0..tile.rows.div_ceil(ROWS) {
                let lhs = &lhs[micro_tile * ROWS * TILE_K..][..k * ROWS];
                let sums = &mut sums[micro_tile * ROWS * TILE_COLUMNS..][..ROWS * TILE_COLUMNS];
                vectorized(MicroTile { lhs, rhs: &rhs[..k * TILE_COLUMNS], sums });
            }
        }
        for row in 0..tile.rows {
            for column in 0..tile.columns {
                let mut value = sums[row * TILE_COLUMNS + column];
                for added in [&tile.bias, &tile.residual].into_iter().flatten() {
                    // SAFETY: the element belongs to the operand.
                    value = value.add(unsafe { added.at(row, column).read() });
                }
                // SAFETY: the element belongs to the tile, which nobody else has.
                unsafe { tile.dst.at(row, column).write(value) };
            }
        }
    })
}

/// Copies a part of k of both operands to where micro-tiles read it: of the lhs, rows of a micro-tile side by side;
/// of the rhs, rows of a fixed length. What is not there is 0.
///
/// # Safety
///
/// The operands reach that far along k.
unsafe fn pack<T: Int>(tile: &Tile<T>, first: usize, k: usize, lhs: &mut [T], rhs: &mut [T]) {
    // SAFETY: all elements belong to the operands.
    unsafe {
        for row in 0..tile.rows.next_multiple_of(ROWS) {
            let micro_tile = &mut lhs[row / ROWS * ROWS * TILE_K..];
            for i in 0..k {
                micro_tile[i * ROWS + row % ROWS] = match row < tile.rows {
                    true => tile.lhs.at(row, first + i).read(),
                    false => T::ZERO,
                };
            }
        }
        for (i, to) in rhs.chunks_mut(TILE_COLUMNS).take(k).enumerate() {
            for (column, to) in to[..tile.columns].iter_mut().enumerate() {
                *to = tile.rhs.at(first + i, column).read();
            }
            to[tile.columns..].fill(T::ZERO);
        }
    }
}

/// Adds the products of some rows with all columns.
struct MicroTile<'a, T> {
    lhs: &'a [T],
    rhs: &'a [T],
    sums: &'a mut [T],
}

impl<T: Int> SimdFn for MicroTile<'_, T> {
    #[inline(always)]
    fn run(self) {
        for column in (0..TILE_COLUMNS).step_by(COLUMNS) {
            let mut sums = [[T::ZERO; COLUMNS]; ROWS];
            let k = self.lhs.as_chunks::<ROWS>().0.iter();
            for (lhs, rhs) in k.zip(self.rhs.chunks_exact(TILE_COLUMNS)) {
                let rhs = &rhs[column..column + COLUMNS];
                for (sums, &lhs) in sums.iter_mut().zip(lhs) {
                    for (sum, &rhs) in sums.iter_mut().zip(rhs) {
                        *sum = sum.add(lhs.mul(rhs));
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                let to = &mut self.sums[row * TILE_COLUMNS + column..][..COLUMNS];
                for (to, &sum) in to.iter_mut().zip(sums) {
                    *to = to.add(sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

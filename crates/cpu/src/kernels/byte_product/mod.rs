//! Matrix products of 8-bit integers with exact 32-bit sums.
//!
//! Instructions for such products take unsigned numbers on the left and signed ones on the right.
//! Factors of the other kind are shifted by 128 as they are packed, which is the same as another zero
//! point, and zero points are taken off at the end: with row sums `A` and column sums `B`,
//! `Σ (a - x)(b - y) = Σ ab - y A - x B + k x y`. All is exact modulo 2³².

mod block;
mod matrix;
mod tile;

#[cfg(test)]
mod tests;

pub(super) use block::{Block, Factors, Zeros};

use millstream_core::{Operand, RawBuffer};

use super::block::base;
use super::fault::{Result, try_share};
use super::parallel::{Parallel, Shared};
use super::walk::Walk;
use matrix::{Matrix, Pair};

/// Rows and columns of a block of the result.
pub(super) const BLOCK_ROWS: usize = 256;
pub(super) const BLOCK_COLUMNS: usize = 256;

/// Multiplications that take about as long as one element of simple work.
pub(super) const PRODUCTS_PER_ELEMENT: usize = 64;

/// # Safety
///
/// As for [`execute`](super::execute).
pub(super) unsafe fn matmul_integer(
    dst: &Operand<RawBuffer>,
    [a, b]: [&Operand<RawBuffer>; 2],
    [a_zero, b_zero]: [Option<&Operand<RawBuffer>>; 2],
    parallel: &dyn Parallel,
) -> Result {
    if dst.layout.is_empty() {
        return Ok(());
    }
    // A zero point that is absent is never read; its matrix stands in for its strides.
    let operands = [dst, a, b, a_zero.unwrap_or(a), b_zero.unwrap_or(b)];
    let leading = dst.layout.rank() - 2;
    let batch = Walk::over(operands.map(|operand| &operand.layout), 0..leading);
    let (rows, columns) = (dst.layout.shape()[leading], dst.layout.shape()[leading + 1]);
    let depth = a.layout.shape()[leading + 1];
    // SAFETY: passed on; an operand of bytes may be read as `u8`.
    let first = unsafe { operands.map(|operand| Shared::new(base::<u8>(operand))) };
    let strides = operands.map(|operand| {
        let strides = operand.layout.strides();
        [strides[leading], strides[leading + 1]]
    });
    // SAFETY: passed on.
    let to = Shared::new(unsafe { base::<i32>(dst) });
    let (down, across) = (rows.div_ceil(BLOCK_ROWS), columns.div_ceil(BLOCK_COLUMNS));
    let area = rows.min(BLOCK_ROWS) * columns.min(BLOCK_COLUMNS);
    let work = area.saturating_mul(depth) / PRODUCTS_PER_ELEMENT + area;
    try_share(parallel, batch.elements() * down * across, work, |range| {
        for index in range {
            let (product, index) = (index / (down * across), index % (down * across));
            let (row, column) = (index / across * BLOCK_ROWS, index % across * BLOCK_COLUMNS);
            let matrix = |operand: usize, row: usize, column: usize| Matrix {
                first: first[operand],
                // Factors without depth have no elements, and may have any strides.
                start: match depth {
                    0 if operand <= 2 => 0,
                    _ => {
                        let [down, along] = strides[operand];
                        batch.position(operand, product) + row * down + column * along
                    }
                },
                strides: strides[operand],
            };
            let pair = Pair {
                left: matrix(1, row, 0),
                right: matrix(2, 0, column),
                left_zero: a_zero.map(|_| matrix(3, row, 0)),
                right_zero: b_zero.map(|_| matrix(4, 0, column)),
                signed: [a.layout.dtype(), b.layout.dtype()].map(matrix::is_signed),
            };
            let block = Block {
                rows: BLOCK_ROWS.min(rows - row),
                columns: BLOCK_COLUMNS.min(columns - column),
                depth,
            };
            let [down, along] = strides[0];
            let start = batch.position(0, product) + row * down + column * along;
            // SAFETY: blocks are disjoint parts of the output; the rest is passed on.
            unsafe {
                block.compute(&pair, |row, sums| {
                    let to = to.get().add(start + row * down);
                    for (i, &sum) in sums.iter().enumerate() {
                        to.add(i * along).write(sum);
                    }
                })?;
            }
        }
        Ok(())
    })
}

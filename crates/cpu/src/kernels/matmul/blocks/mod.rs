//! Products with weights of few bits, whose blocks have scales of their own.
//!
//! A column of weights lies along the depth, so a sum has as many partial sums as a register has numbers, which
//! are added at the end. Their order depends on the depth alone. Weights become numbers a piece at a time, just
//! before some rows are multiplied with them.
//!
//! Bytes hold several neighbours. These are not put in order: the left factor is brought into the order in which
//! they are taken out of the bytes.

mod dot;
mod unpack;

#[cfg(test)]
mod tests;

use millstream_core::{DType, Epilogue, Layout, MAX_RANK, Operand, RawBuffer};

use super::epilogue::{finish, store};
use super::problem::{Block, Problem};
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::number::StoredFloat;
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::with_areas;
use crate::kernels::shared::simd::Machine;
use dot::{LANES, Tiles};
use unpack::{Weights, take_rows};

/// Rows and columns of a block of the result.
const ROWS: usize = 32;
const COLUMNS: usize = 64;

/// Products that are added at a time: whole blocks of weights, whatever their size.
const DEPTH: usize = 512;

/// Multiplications that take about as long as one element of simple work.
const PRODUCTS_PER_ELEMENT: usize = 8;

/// The operands of a product with such weights.
pub(crate) struct Operands<'a> {
    pub dst: &'a Operand<RawBuffer>,
    pub a: &'a Operand<RawBuffer>,
    pub weights: &'a Operand<RawBuffer>,
    pub scales: &'a Operand<RawBuffer>,
    pub zeros: Option<&'a Operand<RawBuffer>>,
    pub bias: Option<&'a Operand<RawBuffer>>,
    pub residual: Option<&'a Operand<RawBuffer>>,
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn matmul_blocks(
    bits: u8,
    size: usize,
    epilogue: &Epilogue,
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
) -> Result {
    if operands.dst.layout.is_empty() {
        return Ok(());
    }
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        match operands.dst.layout.dtype() {
            DType::F32 => run::<f32>(bits, size, epilogue, operands, parallel),
            DType::F16 => run::<half::f16>(bits, size, epilogue, operands, parallel),
            DType::BF16 => run::<half::bf16>(bits, size, epilogue, operands, parallel),
            other => unreachable!("no product of {other} has weights of few bits"),
        }
    }
}

unsafe fn run<T: StoredFloat<Compute = f32>>(
    bits: u8,
    size: usize,
    epilogue: &Epilogue,
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
) -> Result {
    let Operands { dst, a, bias, residual, .. } = operands;
    // The weights stand for a matrix that all products share. It has no elements that anybody reads.
    let (rank, mut shape) = (dst.layout.rank(), [0; MAX_RANK]);
    shape[..rank].copy_from_slice(dst.layout.shape());
    shape[rank - 2] = a.layout.shape()[rank - 1];
    let shared = Layout::strided(dst.layout.dtype(), &shape[..rank], &[0; MAX_RANK][..rank], 0);
    let shared = Operand::new(dst.buffer, shared.expect("strides of 0 fit any shape"));
    // SAFETY: passed on.
    let (problem, weights) = unsafe {
        let problem = Problem::<T>::new(epilogue, dst, [a, &shared], *bias, *residual);
        (problem, Weights::<T>::new(bits, size, operands))
    };
    let (down, across) = (problem.rows.div_ceil(ROWS), problem.columns.div_ceil(COLUMNS));
    let area = problem.rows.min(ROWS) * problem.columns.min(COLUMNS);
    let work = area.saturating_mul(problem.depth) / PRODUCTS_PER_ELEMENT + area;
    let machine = Machine::detect();
    try_share(parallel, problem.batches() * down * across, work, |range| {
        for index in range {
            let (batch, index) = (index / (down * across), index % (down * across));
            let (row, column) = (index / across * ROWS, index % across * COLUMNS);
            let rows = row..(row + ROWS).min(problem.rows);
            let columns = column..(column + COLUMNS).min(problem.columns);
            let block = problem.block(batch, rows, columns);
            // SAFETY: blocks are disjoint parts of the output; the rest is passed on.
            unsafe { compute(&block, &weights, column, machine)? };
        }
        Ok(())
    })
}

/// Computes a block, whose first column is `first` of the weights.
unsafe fn compute<T: StoredFloat<Compute = f32>>(
    block: &Block<'_, T>,
    weights: &Weights<T>,
    first: usize,
    machine: Machine,
) -> Result {
    let &Block { rows, columns, depth, .. } = block;
    let sizes = [rows * DEPTH, columns * DEPTH, rows * columns * LANES, columns];
    with_areas(sizes, |[left, right, partial, sums]: [&mut [f32]; 4]| {
        partial.fill(0.0);
        for begin in (0..depth).step_by(DEPTH) {
            // SAFETY: passed on; the areas have room for a part of that depth.
            unsafe {
                let part = DEPTH.min(depth - begin).next_multiple_of(weights.size());
                take_rows(&block.left, weights, begin..begin + part, (rows, depth), left);
                for column in 0..columns {
                    let to = &mut right[column * part..][..part];
                    weights.column(first + column, begin, to);
                }
                let tiles = Tiles {
                    rows,
                    columns,
                    depth: part,
                    left: left.as_ptr(),
                    right: right.as_ptr(),
                    sums: partial.as_mut_ptr(),
                };
                tiles.add(machine);
            }
        }
        for row in 0..rows {
            let partial = partial[row * columns * LANES..].chunks_exact(LANES);
            for (sum, partial) in sums.iter_mut().zip(partial) {
                *sum = dot::total(partial);
            }
            // SAFETY: passed on.
            unsafe {
                finish(block, row, sums);
                store(&block.dst, row, sums);
            }
        }
    })
}

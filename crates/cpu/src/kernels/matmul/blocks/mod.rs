//! Products with weights of few bits, whose blocks have scales of their own.
//!
//! A column of weights lies along k, so a sum has as many partial sums as a register has numbers, which
//! are added at the end. Their order depends on k alone. Weights become numbers a piece at a time, just
//! before some rows are multiplied with them.
//!
//! Bytes hold several neighbors. These are not put in order: the lhs is brought into the order in which
//! they are taken out of the bytes.

mod dot;
mod unpack;

#[cfg(test)]
mod tests;

use millstream_core::{DType, Epilogue, Layout, MAX_RANK, Operand, RawBuffer};

use super::epilogue::{apply_epilogue, store};
use super::problem::{Problem, Tile};
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::number::StoredFloat;
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::with_areas;
use crate::kernels::shared::simd::Isa;
use dot::{LANES, MicroTiles};
use unpack::{Weights, take_rows};

/// Rows and columns of a block of the result.
const ROWS: usize = 32;
const COLUMNS: usize = 64;

/// Products that are added at a time: whole blocks of weights, whatever their size.
const K_PART: usize = 512;

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
    let work = area.saturating_mul(problem.k) / PRODUCTS_PER_ELEMENT + area;
    let isa = Isa::detect();
    try_share(parallel, problem.batches() * down * across, work, |range| {
        for index in range {
            let (batch, index) = (index / (down * across), index % (down * across));
            let (row, column) = (index / across * ROWS, index % across * COLUMNS);
            let rows = row..(row + ROWS).min(problem.rows);
            let columns = column..(column + COLUMNS).min(problem.columns);
            let tile = problem.tile(batch, rows, columns);
            // SAFETY: tiles are disjoint parts of the output; the rest is passed on.
            unsafe { compute(&tile, &weights, column, isa)? };
        }
        Ok(())
    })
}

/// Computes a tile, whose first column is `first` of the weights.
unsafe fn compute<T: StoredFloat<Compute = f32>>(
    tile: &Tile<'_, T>,
    weights: &Weights<T>,
    first: usize,
    isa: Isa,
) -> Result {
    let &Tile { rows, columns, k, .. } = tile;
    let sizes = [rows * K_PART, columns * K_PART, rows * columns * LANES, columns];
    with_areas(sizes, |[lhs, rhs, partial, sums]: [&mut [f32]; 4]| {
        partial.fill(0.0);
        for begin in (0..k).step_by(K_PART) {
            // SAFETY: passed on; the areas have room for that part of k.
            unsafe {
                let part = K_PART.min(k - begin).next_multiple_of(weights.size());
                take_rows(&tile.lhs, weights, begin..begin + part, (rows, k), lhs);
                for column in 0..columns {
                    let to = &mut rhs[column * part..][..part];
                    weights.column(first + column, begin, to);
                }
                let micro_tiles = MicroTiles {
                    rows,
                    columns,
                    k: part,
                    lhs: lhs.as_ptr(),
                    rhs: rhs.as_ptr(),
                    sums: partial.as_mut_ptr(),
                };
                micro_tiles.add(isa);
            }
        }
        for row in 0..rows {
            let partial = partial[row * columns * LANES..].chunks_exact(LANES);
            for (sum, partial) in sums.iter_mut().zip(partial) {
                *sum = dot::total(partial);
            }
            // SAFETY: passed on.
            unsafe {
                apply_epilogue(tile, row, sums);
                store(&tile.dst, row, sums);
            }
        }
    })
}

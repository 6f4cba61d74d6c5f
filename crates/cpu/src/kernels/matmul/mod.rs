//! Matrix products.
//!
//! Both operands are packed in the order that the innermost loop reads them, the rhs in panels
//! of the width of a micro-tile, so that this loop knows nothing of layouts. Weights are packed once, by a
//! Command of its own; any other rhs is packed part by part, just before it is used. Every
//! element of a product is one sum over `k` in rising order, in one accumulator; blocking only interrupts it. So
//! its bits depend neither on the other rows of a batch nor on where a tile begins.

mod blocks;
mod direct;
mod epilogue;
mod integer;
pub(super) mod macro_kernel;
pub(super) mod micro_kernel;
mod pack;
mod packed;
pub(super) mod panels;
mod problem;
mod scratch;
mod tiling;
mod vector;

#[cfg(test)]
mod tests;

use millstream_core::{DType, Epilogue, Operand, RawBuffer};

use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::number::with_float;
use crate::kernels::shared::parallel::{Parallel, Shared};
use crate::kernels::shared::simd::Isa;
use micro_kernel::GemmElement;
use problem::Problem;
use scratch::new_name;
use tiling::{MOST_COLUMNS, Tiling};

pub(super) use blocks::{Operands as BlocksOperands, matmul_blocks};
pub(crate) use packed::packed_bytes;
pub(super) use packed::{matmul_packed, pack_weights};
pub(super) use scratch::trim_areas;

/// Multiplications that take about as long as one element of simple work.
const PRODUCTS_PER_ELEMENT: usize = 16;

/// Products of a batch of up to this size are each computed by one thread.
const SMALL_PRODUCT: usize = 8 << 20;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn matmul(
    epilogue: &Epilogue,
    dst: &Operand<RawBuffer>,
    operands: [&Operand<RawBuffer>; 2],
    bias: Option<&Operand<RawBuffer>>,
    residual: Option<&Operand<RawBuffer>>,
    parallel: &dyn Parallel,
) -> Result {
    if dst.layout.is_empty() {
        return Ok(());
    }
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        match dst.layout.dtype() {
            // Bits of sums that wrap around are the same with and without a sign.
            DType::I32 | DType::U32 => {
                let problem = Problem::<i32>::new(epilogue, dst, operands, bias, residual);
                return integer::run(&problem, parallel);
            }
            DType::I64 | DType::U64 => {
                let problem = Problem::<i64>::new(epilogue, dst, operands, bias, residual);
                return integer::run(&problem, parallel);
            }
            _ => {}
        }
    }
    with_float!(dst.layout.dtype(), T => {
        // SAFETY: passed on.
        let problem = unsafe { Problem::<T>::new(epilogue, dst, operands, bias, residual) };
        // SAFETY: passed on; the ISA was detected.
        unsafe { run(&problem, Isa::detect(), parallel) }
    })
}

/// Computes all products of a problem with the micro-tiles of an ISA.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the CPU has this ISA.
unsafe fn run<T: GemmElement>(problem: &Problem<T>, isa: Isa, parallel: &dyn Parallel) -> Result {
    let name = new_name();
    let size = problem.rows.saturating_mul(problem.columns).saturating_mul(problem.k);
    let work = size / PRODUCTS_PER_ELEMENT + problem.rows * problem.columns;
    if direct::suits(problem) {
        let across = problem.columns.div_ceil(MOST_COLUMNS);
        try_share(parallel, problem.batches() * across, work / across, |range| {
            for index in range {
                let (batch, column) = (index / across, index % across * MOST_COLUMNS);
                let columns = column..(column + MOST_COLUMNS).min(problem.columns);
                // SAFETY: these are disjoint parts of the output; the rest is passed on.
                unsafe { direct::compute(problem, batch, columns, isa)? };
            }
            Ok(())
        })
    } else if problem.batches() > 1 && (size <= SMALL_PRODUCT || problem.batches() >= 16) {
        try_share(parallel, problem.batches(), work, |range| {
            for batch in range {
                // SAFETY: each product has an output of its own; the rest is passed on.
                unsafe { multiply(problem, name, batch, None, isa, &crate::kernels::Sequential)? };
            }
            Ok(())
        })
    } else {
        for batch in 0..problem.batches() {
            // SAFETY: passed on.
            unsafe { multiply(problem, name, batch, None, isa, parallel)? };
        }
        Ok(())
    }
}

/// Computes one product of the batch, given the panels of the rhs if it is packed.
///
/// # Safety
///
/// As for [`run`], and `rhs` is as [`pack_rhs`](pack::pack_rhs) packs it.
unsafe fn multiply<T: GemmElement>(
    problem: &Problem<T>,
    name: u64,
    batch: usize,
    rhs: Option<Shared<T>>,
    isa: Isa,
    parallel: &dyn Parallel,
) -> Result {
    let size = [problem.rows, problem.columns, problem.k];
    let tiling = Tiling::new(size, rhs.is_some(), T::shape(isa), isa);
    let area = tiling.rows * tiling.columns;
    let work = area.saturating_mul(problem.k) / PRODUCTS_PER_ELEMENT + area;
    try_share(parallel, tiling.down * tiling.across, work, |range| {
        for index in range {
            let row = index / tiling.across * tiling.rows;
            let column = index % tiling.across * tiling.columns;
            let rows = row..(row + tiling.rows).min(problem.rows);
            let columns = column..(column + tiling.columns).min(problem.columns);
            let tile = problem.tile(batch, rows, columns);
            // SAFETY: tiles are disjoint parts of the output; the panels of this one begin there.
            unsafe {
                let rhs = rhs.map(|rhs| rhs.get().add(column * problem.k).cast_const());
                macro_kernel::compute(&tile, rhs, (name, batch, row), isa)?;
            }
        }
        Ok(())
    })
}

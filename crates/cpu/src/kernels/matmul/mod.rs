//! Matrix products.
//!
//! The layers are those of BLIS. A product is cut in tiles ([`tiling`]), a macro-kernel computes a tile, and a
//! micro-kernel a micro-tile, whose sums stay in registers. Both operands are packed in the order in which the
//! micro-kernel reads them, the rhs in panels of the width of a micro-tile, so that it knows nothing of layouts.
//! Weights are packed once, by a Command of its own. Any other rhs is packed part by part, just before it is used.
//!
//! Every element of a product is one sum over `k` in rising order, in one accumulator; tiles only interrupt it. So
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
mod product_id;
pub(super) mod ranges;
mod sources;
mod tiling;
pub(in crate::kernels) mod vector;

#[cfg(test)]
mod tests;

use millstream_core::{DType, Epilogue, Operand, RawBuffer};

use crate::kernels::shared::fault::{Result, try_parallel_for};
use crate::kernels::shared::number::with_float;
use crate::kernels::shared::parallel::{Parallel, SendPtr};
use crate::kernels::shared::simd::Isa;
use micro_kernel::GemmElement;
use problem::Problem;
use product_id::next_product_id;
use tiling::{MAX_COLUMNS, Tiling};

pub(super) use blocks::{Operands as BlocksOperands, matmul_blocks};
pub(crate) use packed::packed_bytes;
pub(super) use packed::{matmul_packed, pack_weights};

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
    let id = next_product_id();
    let size = problem.rows.saturating_mul(problem.columns).saturating_mul(problem.k);
    let work = size / PRODUCTS_PER_ELEMENT + problem.rows * problem.columns;
    if direct::suits(problem) {
        let across = problem.columns.div_ceil(MAX_COLUMNS);
        try_parallel_for(parallel, problem.batches() * across, work / across, |range| {
            for index in range {
                let (batch, column) = (index / across, index % across * MAX_COLUMNS);
                let columns = column..(column + MAX_COLUMNS).min(problem.columns);
                // SAFETY: these are disjoint parts of the output; the rest is passed on.
                unsafe { direct::compute(problem, batch, columns, isa)? };
            }
            Ok(())
        })
    } else if problem.batches() > 1 && (size <= SMALL_PRODUCT || problem.batches() >= 16) {
        try_parallel_for(parallel, problem.batches(), work, |range| {
            for batch in range {
                // SAFETY: each product has an output of its own; the rest is passed on.
                unsafe { multiply(problem, id, batch, None, isa, &crate::kernels::Sequential)? };
            }
            Ok(())
        })
    } else {
        for batch in 0..problem.batches() {
            // SAFETY: passed on.
            unsafe { multiply(problem, id, batch, None, isa, parallel)? };
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
    id: u64,
    batch: usize,
    rhs: Option<SendPtr<T>>,
    isa: Isa,
    parallel: &dyn Parallel,
) -> Result {
    let size = [problem.rows, problem.columns, problem.k];
    let tiling = Tiling::new(size, rhs.is_some(), T::shape(isa), isa);
    let area = tiling.rows * tiling.columns;
    let work = area.saturating_mul(problem.k) / PRODUCTS_PER_ELEMENT + area;
    try_parallel_for(parallel, tiling.down * tiling.across, work, |range| {
        for index in range {
            let row = index / tiling.across * tiling.rows;
            let column = index % tiling.across * tiling.columns;
            let rows = row..(row + tiling.rows).min(problem.rows);
            let columns = column..(column + tiling.columns).min(problem.columns);
            let tile = problem.tile(batch, rows, columns);
            // SAFETY: tiles are disjoint parts of the output; the panels of this one begin there.
            unsafe {
                let rhs = rhs.map(|rhs| rhs.get().add(column * problem.k).cast_const());
                macro_kernel::compute(&tile, rhs, (id, batch, row), isa)?;
            }
        }
        Ok(())
    })
}

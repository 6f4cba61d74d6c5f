//! Matrix products.
//!
//! Both factors are packed in the order that the innermost loop reads them, the right one in panels
//! of the width of a tile, so that this loop knows nothing of layouts. Weights are packed once, by a
//! Command of its own; any other right factor is packed part by part, just before it is used. Every
//! element of a product is one sum over `k` in rising order, in one accumulator; blocking only interrupts it. So
//! its bits depend neither on the other rows of a batch nor on where a block begins.

pub(super) mod block;
mod blocks;
mod direct;
mod epilogue;
mod pack;
mod packed;
pub(super) mod panels;
mod plan;
mod problem;
mod scratch;
pub(super) mod tile;
mod vector;
mod whole;

#[cfg(test)]
mod tests;

use millstream_core::{DType, Epilogue, Operand, RawBuffer};

use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::number::with_float;
use crate::kernels::shared::parallel::{Parallel, Shared};
use crate::kernels::shared::simd::Machine;
use plan::{MOST_COLUMNS, Plan};
use problem::Problem;
use scratch::new_name;
use tile::Multiplied;

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
    factors: [&Operand<RawBuffer>; 2],
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
                let problem = Problem::<i32>::new(epilogue, dst, factors, bias, residual);
                return whole::run(&problem, parallel);
            }
            DType::I64 | DType::U64 => {
                let problem = Problem::<i64>::new(epilogue, dst, factors, bias, residual);
                return whole::run(&problem, parallel);
            }
            _ => {}
        }
    }
    with_float!(dst.layout.dtype(), T => {
        // SAFETY: passed on.
        let problem = unsafe { Problem::<T>::new(epilogue, dst, factors, bias, residual) };
        // SAFETY: passed on; the machine was detected.
        unsafe { run(&problem, Machine::detect(), parallel) }
    })
}

/// Computes all products of a problem with the tiles of a machine.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the machine at hand is this one or a better one.
unsafe fn run<T: Multiplied>(
    problem: &Problem<T>,
    machine: Machine,
    parallel: &dyn Parallel,
) -> Result {
    let name = new_name();
    let size = problem.rows.saturating_mul(problem.columns).saturating_mul(problem.depth);
    let work = size / PRODUCTS_PER_ELEMENT + problem.rows * problem.columns;
    if direct::suits(problem) {
        let across = problem.columns.div_ceil(MOST_COLUMNS);
        try_share(parallel, problem.batches() * across, work / across, |range| {
            for index in range {
                let (batch, column) = (index / across, index % across * MOST_COLUMNS);
                let columns = column..(column + MOST_COLUMNS).min(problem.columns);
                // SAFETY: these are disjoint parts of the output; the rest is passed on.
                unsafe { direct::compute(problem, batch, columns, machine)? };
            }
            Ok(())
        })
    } else if problem.batches() > 1 && (size <= SMALL_PRODUCT || problem.batches() >= 16) {
        try_share(parallel, problem.batches(), work, |range| {
            for batch in range {
                // SAFETY: each product has an output of its own; the rest is passed on.
                unsafe {
                    multiply(problem, name, batch, None, machine, &crate::kernels::Sequential)?
                };
            }
            Ok(())
        })
    } else {
        for batch in 0..problem.batches() {
            // SAFETY: passed on.
            unsafe { multiply(problem, name, batch, None, machine, parallel)? };
        }
        Ok(())
    }
}

/// Computes one product of the batch, given the panels of the right factor if it is packed.
///
/// # Safety
///
/// As for [`run`], and `right` is as [`pack_right`](pack::pack_right) packs it.
unsafe fn multiply<T: Multiplied>(
    problem: &Problem<T>,
    name: u64,
    batch: usize,
    right: Option<Shared<T>>,
    machine: Machine,
    parallel: &dyn Parallel,
) -> Result {
    let size = [problem.rows, problem.columns, problem.depth];
    let plan = Plan::new(size, right.is_some(), T::shape(machine), machine);
    let area = plan.rows * plan.columns;
    let work = area.saturating_mul(problem.depth) / PRODUCTS_PER_ELEMENT + area;
    try_share(parallel, plan.down * plan.across, work, |range| {
        for index in range {
            let row = index / plan.across * plan.rows;
            let column = index % plan.across * plan.columns;
            let rows = row..(row + plan.rows).min(problem.rows);
            let columns = column..(column + plan.columns).min(problem.columns);
            let block = problem.block(batch, rows, columns);
            // SAFETY: blocks are disjoint parts of the output; the panels of this one begin there.
            unsafe {
                let right = right.map(|right| right.get().add(column * problem.depth).cast_const());
                block::compute(&block, right, (name, batch, row), machine)?;
            }
        }
        Ok(())
    })
}

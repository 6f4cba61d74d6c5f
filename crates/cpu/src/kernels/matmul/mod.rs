//! Matrix products.
//!
//! Both factors are packed in the order that the innermost loop reads them, the right one in panels
//! of the width of a tile, so that this loop knows nothing of layouts. Weights are packed once, by a
//! Command of its own; any other right factor is packed before the product. Every element of a
//! product is one sum over `k` in rising order, in one accumulator; blocking only interrupts it. So
//! its bits depend neither on the other rows of a batch nor on where a block begins.

mod block;
mod direct;
mod epilogue;
mod pack;
mod packed;
mod plan;
mod problem;
mod scratch;
mod tile;
mod vector;

#[cfg(test)]
mod packed_tests;
#[cfg(test)]
mod tests;

use millstream_core::{DType, Epilogue, Operand, RawBuffer};

use super::number::with_float;
use super::parallel::{Parallel, Shared, share};
use super::simd::Machine;
use pack::pack_right;
use plan::{MOST_COLUMNS, Plan};
use problem::Problem;
use scratch::{RIGHT, new_name, with_area};
use tile::Multiplied;

pub(crate) use packed::packed_bytes;
pub(super) use packed::{matmul_packed, pack_weights};

/// Multiplications that take about as long as one element of simple work.
const PRODUCTS_PER_ELEMENT: usize = 16;

/// Bytes of the right factor that are packed at a time, unless a single panel is larger.
const MOST_PACKED: usize = 16 << 20;

/// Products of a batch of up to this size are each computed by one thread.
const SMALL_PRODUCT: usize = 8 << 20;

/// # Safety
///
/// As for [`execute`](super::execute).
pub(super) unsafe fn matmul(
    epilogue: &Epilogue,
    dst: &Operand<RawBuffer>,
    factors: [&Operand<RawBuffer>; 2],
    bias: Option<&Operand<RawBuffer>>,
    residual: Option<&Operand<RawBuffer>>,
    parallel: &dyn Parallel,
) {
    if dst.layout.is_empty() {
        return;
    }
    with_float!(dst.layout.dtype(), T => {
        // SAFETY: passed on.
        let problem = unsafe { Problem::<T>::new(epilogue, dst, factors, bias, residual) };
        // SAFETY: passed on; the machine was detected.
        unsafe { run(&problem, Machine::detect(), parallel) };
    });
}

/// Computes all products of a problem with the tiles of a machine.
///
/// # Safety
///
/// As for [`execute`](super::execute), and the machine at hand is this one or a better one.
unsafe fn run<T: Multiplied>(problem: &Problem<T>, machine: Machine, parallel: &dyn Parallel) {
    let name = new_name();
    let size = problem.rows.saturating_mul(problem.columns).saturating_mul(problem.depth);
    let work = size / PRODUCTS_PER_ELEMENT + problem.rows * problem.columns;
    if direct::suits(problem) {
        let across = problem.columns.div_ceil(MOST_COLUMNS);
        share(parallel, problem.batches() * across, work / across, |range| {
            for index in range {
                let (batch, column) = (index / across, index % across * MOST_COLUMNS);
                let columns = column..(column + MOST_COLUMNS).min(problem.columns);
                // SAFETY: these are disjoint parts of the output; the rest is passed on.
                unsafe { direct::compute(problem, batch, columns, machine) };
            }
        });
    } else if problem.batches() > 1 && (size <= SMALL_PRODUCT || problem.batches() >= 16) {
        share(parallel, problem.batches(), work, |range| {
            for batch in range {
                // SAFETY: each product has an output of its own; the rest is passed on.
                unsafe { packing(problem, name, batch, machine, &super::Sequential) };
            }
        });
    } else {
        for batch in 0..problem.batches() {
            // SAFETY: passed on.
            unsafe { packing(problem, name, batch, machine, parallel) };
        }
    }
}

/// Computes one product of the batch, packing its right factor first.
unsafe fn packing<T: Multiplied>(
    problem: &Problem<T>,
    name: u64,
    batch: usize,
    machine: Machine,
    parallel: &dyn Parallel,
) {
    let panel = T::shape(machine).columns;
    let depth = problem.depth;
    let most = MOST_PACKED / (depth.max(1) * panel * size_of::<T>()).max(1);
    let slab = most.max(1) * panel;
    for first in (0..problem.columns).step_by(slab) {
        let columns = first..(first + slab).min(problem.columns);
        let width = columns.len();
        let right = problem.block(batch, 0..problem.rows, columns.clone()).right;
        let panels = width.div_ceil(panel);
        with_area::<T, _>(&RIGHT, panels * panel * depth, None, |packed, _| {
            let packed = Shared::new(packed);
            share(parallel, panels, panel * depth / 2, |range| {
                // SAFETY: panels are disjoint parts of the area, which has room for all.
                unsafe {
                    let to = packed.get().add(range.start * panel * depth);
                    pack_right(&right, [depth, width], panel, range, to, machine);
                }
            });
            let columns = (columns.start, columns.end);
            // SAFETY: the columns are packed; the rest is passed on.
            unsafe { multiply(problem, name, batch, columns, packed, machine, parallel) };
        });
    }
}

/// Computes some columns of one product of the batch, given the panels of the right factor.
///
/// # Safety
///
/// As for [`run`], and `right` holds these columns as [`pack_right`] packs them.
unsafe fn multiply<T: Multiplied>(
    problem: &Problem<T>,
    name: u64,
    batch: usize,
    (start, end): (usize, usize),
    right: Shared<T>,
    machine: Machine,
    parallel: &dyn Parallel,
) {
    let depth = problem.depth;
    let plan = Plan::new([problem.rows, end - start, depth], T::shape(machine), machine);
    let area = plan.rows * plan.columns;
    let work = area.saturating_mul(depth) / PRODUCTS_PER_ELEMENT + area;
    share(parallel, plan.down * plan.across, work, |range| {
        for index in range {
            let (row, column) = (index / plan.across * plan.rows, index % plan.across);
            let column = column * plan.columns;
            let rows = row..(row + plan.rows).min(problem.rows);
            let columns = start + column..(start + column + plan.columns).min(end);
            let block = problem.block(batch, rows, columns);
            // SAFETY: blocks are disjoint parts of the output; the panels of this one begin there.
            unsafe {
                let right = right.get().add(column * depth);
                block::compute(&block, right, (name, batch, row), machine);
            }
        }
    });
}

//! Matrix products.
//!
//! The result is cut in blocks that fit the second-level cache. For each, both factors are packed
//! in the order that the innermost loop reads them, in the type that is computed in, so that this
//! loop knows nothing of layouts and element types. Every element of a product is one sum over `k`
//! in rising order, in one accumulator; blocking only interrupts it. So its bits depend neither on
//! the other rows of a batch nor on where a block begins.

mod block;
mod epilogue;
mod pack;
mod problem;
mod scratch;
mod tile;

#[cfg(test)]
mod tests;

use millstream_core::{DType, Epilogue, Operand, RawBuffer};

use super::number::{Float, StoredFloat, with_float};
use super::parallel::{Parallel, share};
use super::simd::Machine;
use problem::Problem;

/// Rows and columns of a block of the result.
const BLOCK_ROWS: usize = 192;
const BLOCK_COLUMNS: usize = 256;

/// Multiplications that take about as long as one element of simple work.
const PRODUCTS_PER_ELEMENT: usize = 16;

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

/// Computes all blocks with the tiles of a machine.
///
/// # Safety
///
/// As for [`execute`](super::execute), and the machine at hand is this one or a better one.
unsafe fn run<T: StoredFloat>(problem: &Problem<T>, machine: Machine, parallel: &dyn Parallel)
where
    T::Compute: Tiled,
{
    let down = problem.rows.div_ceil(BLOCK_ROWS);
    let across = problem.columns.div_ceil(BLOCK_COLUMNS);
    let blocks = problem.batches() * down * across;
    let area = problem.rows.min(BLOCK_ROWS) * problem.columns.min(BLOCK_COLUMNS);
    let work = area.saturating_mul(problem.depth) / PRODUCTS_PER_ELEMENT + area;
    share(parallel, blocks, work, |range| {
        for block in range {
            let (batch, block) = (block / (down * across), block % (down * across));
            let (row, column) = (block / across * BLOCK_ROWS, block % across * BLOCK_COLUMNS);
            let block = problem.block(batch, row, column);
            // SAFETY: blocks are disjoint parts of the output; the rest is passed on.
            unsafe { T::Compute::compute(&block, machine) };
        }
    });
}

/// A type with tiles of a size that suits the registers of each machine.
trait Tiled: Float {
    /// Computes one block of the result.
    ///
    /// # Safety
    ///
    /// Nobody else touches the block of the output, and the machine at hand is this one or
    /// a better one.
    unsafe fn compute<T: StoredFloat<Compute = Self>>(
        block: &problem::Block<'_, T>,
        machine: Machine,
    );
}

macro_rules! tiled {
    ($type:ident: portable $p:literal, avx2 $a:literal, avx512 $b:literal) => {
        impl Tiled for $type {
            unsafe fn compute<T: StoredFloat<Compute = Self>>(
                block: &problem::Block<'_, T>,
                machine: Machine,
            ) {
                // SAFETY: passed on.
                unsafe {
                    match machine {
                        Machine::Portable => block::compute::<T, 4, $p>(block, machine),
                        #[cfg(target_arch = "x86_64")]
                        Machine::Avx2 => block::compute::<T, 6, $a>(block, machine),
                        #[cfg(target_arch = "x86_64")]
                        Machine::Avx512 => block::compute::<T, 8, $b>(block, machine),
                    }
                }
            }
        }
    };
}

tiled!(f32: portable 8, avx2 16, avx512 32);
tiled!(f64: portable 4, avx2 8, avx512 16);

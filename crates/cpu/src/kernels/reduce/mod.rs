//! Reductions along axes.

mod extreme;
mod float;
mod fold;
mod int;

#[cfg(test)]
mod tests;

use millstream_core::{Axes, DType, Operand, RawBuffer, ReduceOp};

use crate::kernels::shared::number::with_computed_float;
use crate::kernels::shared::parallel::Parallel;
use fold::Reduction;

/// Combines all elements along some axes.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn reduce(
    op: ReduceOp,
    axes: Axes,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let dtype = src.layout.dtype();
    let reduction = Reduction::new(axes, dst, src, parallel);
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        // Of truth values there are only the largest and the smallest.
        match dtype.is_float() {
            true => with_computed_float!(dtype, C => float::reduce::<C>(op, &reduction)),
            false => int::reduce(op, &reduction),
        }
    }
}

//! Reductions along axes.

mod extreme;
mod float;
mod fold;
mod int;

#[cfg(test)]
mod tests;

use millstream_core::{Axes, DType, Operand, RawBuffer, ReduceOp};

use crate::kernels::shared::number::{Bool, with_float, with_int};
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
        match dtype {
            DType::Bool if op == ReduceOp::Max => {
                reduction.fold::<Bool, Bool, u8>(0, |a, b, _| a | b, |a, b| a | b, Bool);
            }
            // Of truth values there are only these two.
            DType::Bool => reduction.fold::<Bool, Bool, u8>(1, |a, b, _| a & b, |a, b| a & b, Bool),
            _ if dtype.is_float() => with_float!(dtype, T => float::reduce::<T>(op, &reduction)),
            _ => with_int!(dtype, T => int::reduce::<T>(op, &reduction)),
        }
    }
}

//! Softmax and its logarithm along an axis.
//!
//! Rows take one loop, columns another; both combine the elements in the same order: the powers of a
//! block of a row are added in the type computed in, at most 16 to a partial, and blocks in `f64`.

mod columns;
mod rows;

#[cfg(test)]
mod tests;

use millstream_core::{DType, Operand, RawBuffer};

use crate::kernels::shared::number::{Float, with_computed_float};
use crate::kernels::shared::operand::{Input, Output};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::walk::Walk;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn softmax(
    axis: usize,
    log: bool,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let layouts = [&dst.layout, &src.layout];
    let rows = Walk::over(layouts, (0..dst.layout.rank()).filter(|&other| other != axis));
    let row = Walk::over(layouts, [axis]);
    if row.elements() == 0 {
        return;
    }
    with_computed_float!(dst.layout.dtype(), C => {
        // SAFETY: passed on.
        unsafe {
            let output = Output::<C>::new(dst, 0).of_elements(dst.layout.elements());
            let softmax = Softmax { rows, row, log, output, input: Input::new(src, 1, dst) };
            if softmax.is_columnar() {
                columns::run(&softmax, parallel);
            } else {
                rows::run(&softmax, parallel);
            }
        }
    });
}

/// One command.
struct Softmax<C> {
    /// Where rows start, in output and input.
    rows: Walk<2>,
    /// One row of output and input.
    row: Walk<2>,
    log: bool,
    output: Output<C>,
    input: Input<C>,
}

impl<C> Softmax<C> {
    /// Whether neighbors in memory belong to neighboring rows.
    fn is_columnar(&self) -> bool {
        let dense = |walk: &Walk<2>| [0, 1].map(|operand| walk.inner_stride(operand)) == [1, 1];
        dense(&self.rows) && !dense(&self.row) && self.rows.inner() >= columns::FEWEST
    }
}

/// The larger of two. A NaN is not larger than anything; it reaches the sum of the powers.
#[inline(always)]
fn larger<F: Float>(top: F, x: F) -> F {
    if x > top { x } else { top }
}

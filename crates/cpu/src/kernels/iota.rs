//! Iota: evenly spaced numbers.

use millstream_core::{DType, IotaParams, Operand, RawBuffer, Scalar};

use crate::kernels::shared::block::{BlockBuffer, each_block};
use crate::kernels::shared::conversion::Conversion;
use crate::kernels::shared::number::{Float, with_computed_float};
use crate::kernels::shared::operand::{Computed, Output};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::walk::Walk;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn iota(params: &IotaParams, dst: &Operand<RawBuffer>, parallel: &dyn Parallel) {
    let dtype = dst.layout.dtype();
    let (start, step) = (params.start, params.step);
    // SAFETY: passed on; the types are those of the operand.
    unsafe {
        if dtype.is_float() {
            with_computed_float!(dtype, C => {
                let [start, step] = [start, step].map(|value| C::from_f64(value.as_f64()));
                let number = |index: usize| start + <C as Float>::from_f64(index as f64) * step;
                fill::<C>(params, dst, parallel, number);
            });
        } else {
            // Integers wrap around, so the last bits of wide ones are those of narrow ones.
            let [start, step] = [start, step].map(|value| wide(value, dtype));
            let number = |index: usize| start.wrapping_add((index as u64).wrapping_mul(step));
            fill::<u64>(params, dst, parallel, number);
        }
    }
}

/// An integer of a type, widened.
fn wide(value: Scalar, dtype: DType) -> u64 {
    let element = u64::from_ne_bytes(value.to_bytes(dtype));
    let mut wide = 0;
    // SAFETY: the element lies in the first bytes.
    unsafe {
        let from = (&raw const element).cast();
        Conversion::new(dtype, DType::U64).run(from, (&raw mut wide).cast(), 1);
    }
    wide
}

unsafe fn fill<C: Computed>(
    params: &IotaParams,
    dst: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    number: impl Fn(usize) -> C + Sync,
) {
    // Beside the output walks its index along the axis.
    let layout = &dst.layout;
    let along = usize::from(params.axis);
    let walk =
        Walk::from_axes((0..layout.rank()).map(|axis| {
            (layout.shape()[axis], [layout.strides()[axis], usize::from(axis == along)])
        }));
    let step = walk.inner_stride(1);
    // SAFETY: passed on.
    let output = unsafe { Output::<C>::new(dst, 0) }.of_elements(walk.elements());
    each_block(&walk, parallel, &|start, len| {
        // SAFETY: blocks are disjoint parts of the output, and all of a block is written.
        unsafe {
            output.write(&walk, start, len, &mut BlockBuffer::new(), |block| {
                let mut rest = block;
                walk.rows(start, len, |[_, first], count| {
                    let (run, behind) = std::mem::take(&mut rest).split_at_mut(count);
                    rest = behind;
                    for (i, to) in run.iter_mut().enumerate() {
                        to.write(number(first + i * step));
                    }
                });
            });
        }
    });
}

#[cfg(test)]
mod tests;

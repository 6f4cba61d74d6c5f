//! Numbers in a row.

use millstream_core::{DType, IotaParams, Operand, RawBuffer};

use crate::kernels::shared::block::{Output, Scratch, base, each_block};
use crate::kernels::shared::integer::Int;
use crate::kernels::shared::number::{Float, Stored, StoredFloat, with_float, with_int};
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
            with_float!(dtype, T => {
                let [start, step] = [start, step].map(|value| float::<T>(value.as_f64()));
                let number = |index: usize| start + float::<T>(index as f64) * step;
                fill::<T>(params, dst, parallel, number);
            });
        } else {
            with_int!(dtype, T => {
                let [start, step] = [start, step].map(|value| element::<T>(value.to_bytes(dtype)));
                let number = |index: usize| start.add(T::wrapped(index).mul(step));
                fill::<T>(params, dst, parallel, number);
            });
        }
    }
}

/// A number in the type that a floating-point type is computed in.
fn float<T: StoredFloat>(value: f64) -> T::Compute {
    <T::Compute as Float>::from_f64(value)
}

/// The element with these bytes.
fn element<T: Int>(bytes: [u8; 8]) -> T {
    // SAFETY: any bytes are an integer, and none has more than 8.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

unsafe fn fill<T: Stored>(
    params: &IotaParams,
    dst: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    number: impl Fn(usize) -> T::Compute + Sync,
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
    let output = Output::<T>::new(unsafe { base(dst) }, 0).of_elements(walk.elements());
    each_block(&walk, parallel, |start, len| {
        // SAFETY: blocks are disjoint parts of the output, and all of a block is written.
        unsafe {
            output.write(&walk, start, len, &mut Scratch::new(), |block| {
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

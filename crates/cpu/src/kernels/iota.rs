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
mod tests {
    use millstream_core::{Command, Layout};

    use super::*;
    use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, run};

    #[test]
    fn numbers_follow_the_axis_whatever_the_layout() {
        let dst = Tensor::output(DType::I64, &[2, 3]);
        run(Command::iota(dst.operand(), 1, 10i64, -4i64));
        assert_eq!(dst.values::<i64>(), [10, 6, 2, 10, 6, 2]);
        let turned = Layout::contiguous(DType::F32, &[3, 2]).unwrap().transpose(0, 1).unwrap();
        let dst = Tensor::uninit(turned);
        run(Command::iota(dst.operand(), 0, 0.5f32, 2.0f32));
        assert_eq!(dst.values::<f32>(), [0.5, 0.5, 0.5, 2.5, 2.5, 2.5]);
    }

    #[test]
    fn integers_wrap_and_floats_round_twice() {
        let dst = Tensor::output(DType::U8, &[300]);
        run(Command::iota(dst.operand(), 0, 250i64, 1i64));
        assert_eq!(dst.values::<u8>()[5..8], [255, 0, 1]);
        let dst = Tensor::output(DType::F32, &[12]);
        run(Command::iota(dst.operand(), 0, 1.0f32, 0.1f32));
        let expected: Vec<f32> = (0..12).map(|i| 1.0 + i as f32 * 0.1).collect();
        assert_eq!(dst.values::<f32>(), expected);
    }

    #[test]
    fn long_rows_have_the_same_bits_in_any_order() {
        let dst = Tensor::output(DType::F32, &[3, 50_001]);
        let command = Command::iota(dst.operand(), 1, 1.0f32, 0.3f32).unwrap();
        assert_same_bits_in_any_order(&command, &dst);
    }
}

//! What happens to the sums before they are stored.

use std::mem::MaybeUninit;

use super::super::activation;
use super::super::number::{Float, StoredFloat};
use super::super::simd::{Job, vectorised};
use super::BLOCK_COLUMNS;
use super::problem::{Block, Matrix};

/// Stores `activation(scale · sum + bias + residual)` for every sum of a block.
///
/// # Safety
///
/// Nobody else touches the block of the output.
pub(super) unsafe fn finish<T: StoredFloat>(
    block: &Block<'_, T>,
    sums: &mut [T::Compute],
    stride: usize,
) {
    for row in 0..block.rows {
        let sums = &mut sums[row * stride..][..block.columns];
        // SAFETY: passed on.
        unsafe {
            vectorised(Scale { factor: block.epilogue.scale, sums: &mut *sums });
            for extra in block.bias.iter().chain(&block.residual) {
                add(extra, row, sums);
            }
            vectorised(Activate { activation: block.epilogue.activation, sums: &mut *sums });
            store(&block.dst, row, sums);
        }
    }
}

struct Scale<'a, F> {
    factor: f32,
    sums: &'a mut [F],
}

impl<F: Float> Job for Scale<'_, F> {
    #[inline(always)]
    fn run(self) {
        let factor = F::from_f32(self.factor);
        if factor != F::ONE {
            for sum in self.sums {
                *sum = factor * *sum;
            }
        }
    }
}

struct Activate<'a, F> {
    activation: millstream_core::Activation,
    sums: &'a mut [F],
}

impl<F: Float> Job for Activate<'_, F> {
    #[inline(always)]
    fn run(self) {
        activation::apply(self.activation, self.sums);
    }
}

/// Adds a row of a matrix.
unsafe fn add<T: StoredFloat>(matrix: &Matrix<T>, row: usize, sums: &mut [T::Compute]) {
    // SAFETY: the row belongs to the matrix, whose elements nobody writes.
    unsafe {
        let first = matrix.at(row, 0).cast_const();
        match matrix.column_stride() {
            0 => {
                let value = first.read().widen();
                sums.iter_mut().for_each(|sum| *sum += value);
            }
            1 => {
                let mut values = [const { MaybeUninit::uninit() }; BLOCK_COLUMNS];
                let values = &mut values[..sums.len()];
                T::widen_run(std::slice::from_raw_parts(first, sums.len()), values);
                let values = values.assume_init_ref();
                sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += value);
            }
            stride => {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum += first.add(i * stride).read().widen();
                }
            }
        }
    }
}

/// Stores a row, rounding to the element type.
unsafe fn store<T: StoredFloat>(matrix: &Matrix<T>, row: usize, sums: &[T::Compute]) {
    // SAFETY: the row belongs to the output, and nobody else touches it.
    unsafe {
        let first = matrix.at(row, 0);
        let stride = matrix.column_stride();
        if stride == 1 {
            let to = std::slice::from_raw_parts_mut(first.cast::<MaybeUninit<T>>(), sums.len());
            T::narrow_run(sums, to);
        } else {
            for (i, &sum) in sums.iter().enumerate() {
                first.add(i * stride).write(T::narrow(sum));
            }
        }
    }
}

//! What happens to the sums before they are stored.

use std::mem::MaybeUninit;

use millstream_core::Activation;

use super::problem::{Matrix, Tile};
use crate::kernels::shared::activation;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// Whether the sums are the results.
pub(super) fn is_plain<T>(tile: &Tile<'_, T>) -> bool {
    tile.epilogue.scale == 1.0
        && tile.epilogue.activation == Activation::None
        && tile.bias.is_none()
        && tile.residual.is_none()
}

/// Makes `activation(scale · sum + bias + residual)` of the sums of a row of a tile.
///
/// # Safety
///
/// The row is one of the tile, and `sums` are as many as it has columns.
pub(super) unsafe fn apply_epilogue<T: StoredFloat>(
    tile: &Tile<'_, T>,
    row: usize,
    sums: &mut [T::Compute],
) {
    if tile.epilogue.scale != 1.0 {
        vectorized(Scale { scale: tile.epilogue.scale, sums: &mut *sums });
    }
    for extra in tile.bias.iter().chain(&tile.residual) {
        // SAFETY: passed on.
        unsafe { add(extra, row, sums) };
    }
    if tile.epilogue.activation != Activation::None {
        vectorized(Activate { activation: tile.epilogue.activation, sums });
    }
}

struct Scale<'a, F> {
    scale: f32,
    sums: &'a mut [F],
}

impl<F: Float> SimdFn for Scale<'_, F> {
    #[inline(always)]
    fn run(self) {
        let scale = F::from_f32(self.scale);
        for sum in self.sums {
            *sum = scale * *sum;
        }
    }
}

struct Activate<'a, F> {
    activation: Activation,
    sums: &'a mut [F],
}

impl<F: Float> SimdFn for Activate<'_, F> {
    #[inline(always)]
    fn run(self) {
        activation::apply(self.activation, self.sums);
    }
}

struct Add<'a, F> {
    values: &'a [F],
    sums: &'a mut [F],
}

impl<F: Float> SimdFn for Add<'_, F> {
    #[inline(always)]
    fn run(self) {
        for (sum, &value) in self.sums.iter_mut().zip(self.values) {
            *sum += value;
        }
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
            1 if T::DIRECT => {
                let values = std::slice::from_raw_parts(first.cast::<T::Compute>(), sums.len());
                vectorized(Add { values, sums });
            }
            1 => {
                let mut wide = [const { MaybeUninit::uninit() }; 256];
                for (index, sums) in sums.chunks_mut(wide.len()).enumerate() {
                    let first = first.add(index * wide.len());
                    let values = &mut wide[..sums.len()];
                    T::widen_run(std::slice::from_raw_parts(first, sums.len()), values);
                    vectorized(Add { values: values.assume_init_ref(), sums });
                }
            }
            stride => {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum += first.add(i * stride).read().widen();
                }
            }
        }
    }
}

/// Stores a row of a tile, rounding to the element type.
///
/// # Safety
///
/// The row is one of the tile, `sums` are as many as it has columns, and nobody else touches it.
pub(super) unsafe fn store<T: StoredFloat>(matrix: &Matrix<T>, row: usize, sums: &[T::Compute]) {
    // SAFETY: passed on.
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

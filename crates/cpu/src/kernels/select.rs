//! Where and Clip: choosing between elements, and limiting them.

use std::mem::MaybeUninit;

use millstream_core::{DType, Operand, RawBuffer, Scalar};

use crate::kernels::shared::elementwise::{DenseTile, each_tile};
use crate::kernels::shared::integer::Int;
use crate::kernels::shared::number::{Stored, StoredFloat, with_bits, with_float, with_int};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// `a` where the condition holds, else `b`; the inputs are condition, `a` and `b`.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn where_(
    dst: &Operand<RawBuffer>,
    inputs: [&Operand<RawBuffer>; 3],
    parallel: &dyn Parallel,
) {
    let dtype = dst.layout.dtype();
    // SAFETY: passed on; the type is that of the operands.
    unsafe { each_tile::<3, 4>(dst, inputs, parallel, &|tile| choose(dtype, tile)) }
}

/// The same for a tile; the type is that of `a` and `b`.
///
/// # Safety
///
/// The type is that of the tile, and its first input are truth values.
pub(super) unsafe fn choose(dtype: DType, tile: DenseTile<3>) {
    let DenseTile { to, from: [choices, a, b], count } = tile;
    // SAFETY: passed on; bits of the size of the elements stand for them.
    with_bits!(dtype, Bits => unsafe {
        vectorized(Choose::<Bits> {
            choices: std::slice::from_raw_parts(choices, count),
            a: std::slice::from_raw_parts(a.cast(), count),
            b: std::slice::from_raw_parts(b.cast(), count),
            to: std::slice::from_raw_parts_mut(to.cast(), count),
        });
    });
}

struct Choose<'a, T> {
    choices: &'a [u8],
    a: &'a [T],
    b: &'a [T],
    to: &'a mut [MaybeUninit<T>],
}

impl<T: Copy> SimdFn for Choose<'_, T> {
    #[inline(always)]
    fn run(self) {
        let pairs = self.a.iter().zip(self.b);
        for ((to, &choice), (&a, &b)) in self.to.iter_mut().zip(self.choices).zip(pairs) {
            to.write(if choice != 0 { a } else { b });
        }
    }
}

/// Limits each element. A limit that is absent is one that no element exceeds.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn clip(
    min: Option<Scalar>,
    max: Option<Scalar>,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let dtype = dst.layout.dtype();
    // SAFETY: passed on; the type is that of the operands.
    unsafe { each_tile::<1, 2>(dst, [src], parallel, &|tile| limit(min, max, dtype, tile)) }
}

/// Limits each element of a tile.
///
/// # Safety
///
/// The type is that of the tile, and the limits are numbers of it.
pub(super) unsafe fn limit(
    min: Option<Scalar>,
    max: Option<Scalar>,
    dtype: DType,
    tile: DenseTile<1>,
) {
    // SAFETY: passed on. The loop fills its output.
    unsafe {
        if dtype.is_float() {
            with_float!(dtype, T => {
                let rounded = |limit: f64| <T as StoredFloat>::from_f64(limit).widen();
                let low = rounded(min.map_or(f64::NEG_INFINITY, Scalar::as_f64));
                let high = rounded(max.map_or(f64::INFINITY, Scalar::as_f64));
                tile.apply::<T, T>(|[values], to| vectorized(Limit { low, high, values, to }));
            });
        } else {
            with_int!(dtype, T => {
                // The constructor brought the limits into the range of the type.
                let low = min.map_or(<T as Int>::MIN, |limit| limit.as_i128() as T);
                let high = max.map_or(<T as Int>::MAX, |limit| limit.as_i128() as T);
                tile.apply::<T, T>(|[values], to| vectorized(Limit { low, high, values, to }));
            });
        }
    }
}

struct Limit<'a, C> {
    low: C,
    high: C,
    values: &'a [C],
    to: &'a mut [MaybeUninit<C>],
}

impl<C: Copy + PartialOrd> SimdFn for Limit<'_, C> {
    #[inline(always)]
    fn run(self) {
        for (to, &value) in self.to.iter_mut().zip(self.values) {
            // NaN is neither below nor above anything.
            let value = if value < self.low { self.low } else { value };
            to.write(if value > self.high { self.high } else { value });
        }
    }
}

#[cfg(test)]
mod tests;

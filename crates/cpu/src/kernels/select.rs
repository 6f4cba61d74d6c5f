//! Choosing between elements, and limiting them.

use std::mem::MaybeUninit;

use millstream_core::{DType, Operand, RawBuffer, Scalar};

use crate::kernels::shared::block::{Input, Output, Scratch, base, each_block};
use crate::kernels::shared::integer::Int;
use crate::kernels::shared::number::{Bool, Stored, StoredFloat, with_bits, with_float, with_int};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::span::{Span, Tile, Whole};
use crate::kernels::shared::walk::Walk;

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
    let [condition, a, b] = inputs;
    let walk = Walk::in_any_order([&dst.layout, &condition.layout, &a.layout, &b.layout]);
    with_bits!(dst.layout.dtype(), Bits => {
        // SAFETY: passed on; bits of the size of the elements stand for them.
        let (to, condition, a, b) =
            unsafe { (base::<Bits>(dst), base::<Bool>(condition), base::<Bits>(a), base::<Bits>(b)) };
        let output = Output::new(to, 0);
        let condition = Input::new(condition, 1, to);
        let (a, b) = (Input::new(a, 2, to), Input::new(b, 3, to));
        each_block(&walk, parallel, |start, len| {
            let mut choices = Scratch::new();
            let (mut left, mut right, mut results) =
                (Scratch::new(), Scratch::new(), Scratch::new());
            // SAFETY: blocks are disjoint parts of the output; an input that is the output is read
            // before the same elements are written, and the loop fills the block.
            unsafe {
                let choices = condition.read(&walk, start, len, &mut choices);
                let a = a.read(&walk, start, len, &mut left);
                let b = b.read(&walk, start, len, &mut right);
                output.write(&walk, start, len, &mut results, |to| {
                    vectorized(Choose { choices, a, b, to });
                });
            }
        });
    });
}

/// The same for a tile of elements of a type; `choices` is the condition.
///
/// # Safety
///
/// `choices` is valid and initialized for as many truth values as the tile has elements of the type.
#[inline]
pub(super) unsafe fn choose(dtype: DType, choices: *const u8, tile: Tile<2>) {
    with_bits!(dtype, Bits => {
        // SAFETY: passed on; bits of the size of the elements stand for them. The loop fills its output.
        unsafe {
            let choices = std::slice::from_raw_parts(choices, tile.count);
            tile.apply::<Bits, Bits>(|[a, b], to| vectorized(Choose { choices, a, b, to }));
        }
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
    unsafe { limit(min, max, dtype, Whole { dst, inputs: [src], parallel }) }
}

/// Limits each element of a span.
///
/// # Safety
///
/// The type is that of the span, and the limits are numbers of it.
#[inline]
pub(super) unsafe fn limit(
    min: Option<Scalar>,
    max: Option<Scalar>,
    dtype: DType,
    span: impl Span<1>,
) {
    // SAFETY: passed on. The loop fills its output.
    unsafe {
        if dtype.is_float() {
            with_float!(dtype, T => {
                let rounded = |limit: f64| <T as StoredFloat>::from_f64(limit).widen();
                let low = rounded(min.map_or(f64::NEG_INFINITY, Scalar::as_f64));
                let high = rounded(max.map_or(f64::INFINITY, Scalar::as_f64));
                span.apply::<T, T>(|[values], to| vectorized(Limit { low, high, values, to }));
            });
        } else {
            with_int!(dtype, T => {
                // The constructor brought the limits into the range of the type.
                let low = min.map_or(<T as Int>::MIN, |limit| limit.as_i128() as T);
                let high = max.map_or(<T as Int>::MAX, |limit| limit.as_i128() as T);
                span.apply::<T, T>(|[values], to| vectorized(Limit { low, high, values, to }));
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

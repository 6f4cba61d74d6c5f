//! Conversion to and from integers with a scale.

use std::mem::MaybeUninit;

use millstream_core::{DType, QuantizePart, RawBuffer};

use crate::kernels::shared::block::{BlockBuffer, each_block};
use crate::kernels::shared::number::{Float, with_computed_float, with_dtype};
use crate::kernels::shared::operand::{Computed, Input, Output};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::walk::Walk;

/// A type of quantized numbers.
trait Quantized: Computed {
    fn saturate<F: Float>(value: F) -> Self;
    fn number<F: Float>(self) -> F;
    /// The exact difference, rounded once.
    fn minus<F: Float>(self, zero: Self) -> F;
}

macro_rules! quantized {
    ($($type:ident by $wide:ident),*) => {
        $(
            impl Quantized for $type {
                #[inline(always)]
                fn saturate<F: Float>(value: F) -> Self {
                    value.to_f64() as $type
                }

                #[inline(always)]
                fn number<F: Float>(self) -> F {
                    F::from_f64(f64::from(self))
                }

                #[inline(always)]
                fn minus<F: Float>(self, zero: Self) -> F {
                    F::from_f64(($wide::from(self) - $wide::from(zero)) as f64)
                }
            }
        )*
    };
}

quantized!(u8 by i32, i8 by i32, u16 by i32, i16 by i32, i32 by i64);

/// Runs a body with `$type` standing for the type of quantized numbers.
macro_rules! with_quantized {
    ($dtype:expr, $type:ident => $body:expr) => {
        with_dtype!(
            $dtype,
            $type of [U8: u8, I8: i8, U16: u16, I16: i16, I32: i32]
            or "is not a type of quantized numbers" => $body
        )
    };
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn quantize(part: &QuantizePart<RawBuffer>, parallel: &dyn Parallel) {
    with_quantized!(part.dst.layout.dtype(), Q => with_computed_float!(part.src.layout.dtype(), C => {
        // SAFETY: passed on; the loop writes all of its block.
        unsafe {
            each::<C, Q, Q>(part, parallel, |values, scales, zeros, to| {
                vectorized(ToIntegers { values, scales, zeros, to });
            });
        }
    }));
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn dequantize(part: &QuantizePart<RawBuffer>, parallel: &dyn Parallel) {
    with_quantized!(part.src.layout.dtype(), Q => with_computed_float!(part.dst.layout.dtype(), C => {
        // SAFETY: passed on; the loop writes all of its block.
        unsafe {
            each::<Q, C, Q>(part, parallel, |values, scales, zeros, to| {
                vectorized(FromIntegers { values, scales, zeros, to });
            });
        }
    }));
}

/// Calls `function(values, scales, zero points, results)` for all blocks.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute); the types are those of the operands, and the function writes all
/// results of a block.
unsafe fn each<S: Computed, D: Computed, Q: Quantized>(
    part: &QuantizePart<RawBuffer>,
    parallel: &dyn Parallel,
    function: impl Fn(&[S], &[f32], Option<&[Q]>, &mut [MaybeUninit<D>]) + Sync,
) {
    let QuantizePart { dst, src, scale, zero } = part;
    let walk = walk(part);
    // SAFETY: passed on.
    let (output, input, scales, zeros) = unsafe {
        let zeros = zero.as_ref().map(|zero| Input::<Q>::new(zero, 3, dst));
        (Output::new(dst, 0), Input::new(src, 1, dst), Input::<f32>::new(scale, 2, dst), zeros)
    };
    each_block(&walk, parallel, &|start, len| {
        let (mut a, mut b, mut c) = (BlockBuffer::new(), BlockBuffer::new(), BlockBuffer::new());
        let mut results = BlockBuffer::new();
        // SAFETY: blocks are disjoint; the rest is passed on.
        unsafe {
            let values = input.read(&walk, start, len, &mut a);
            let scales = scales.read(&walk, start, len, &mut b);
            let zeros = zeros.map(|zeros| zeros.read(&walk, start, len, &mut c));
            output.write(&walk, start, len, &mut results, |to| {
                function(values, scales, zeros, to);
            });
        }
    });
}

/// Output, input, scale and zero point; where there is none the scale stands in.
fn walk(part: &QuantizePart<RawBuffer>) -> Walk<4> {
    let QuantizePart { dst, src, scale, zero } = part;
    let zero = zero.as_ref().unwrap_or(scale);
    Walk::in_any_order([dst, src, scale, zero].map(|operand| &operand.layout))
}

struct ToIntegers<'a, F, Q> {
    values: &'a [F],
    scales: &'a [f32],
    zeros: Option<&'a [Q]>,
    to: &'a mut [MaybeUninit<Q>],
}

impl<F: Float, Q: Quantized> SimdFn for ToIntegers<'_, F, Q> {
    #[inline(always)]
    fn run(self) {
        let whole = |value: F, scale: f32| {
            let rounded = (value / F::from_f32(scale)).round_ties_even();
            if rounded.is_nan() { F::ZERO } else { rounded }
        };
        let pairs = self.to.iter_mut().zip(self.values).zip(self.scales);
        match self.zeros {
            Some(zeros) => pairs.zip(zeros).for_each(|(((to, &value), &scale), &zero)| {
                to.write(Q::saturate(whole(value, scale) + zero.number()));
            }),
            None => pairs.for_each(|((to, &value), &scale)| {
                to.write(Q::saturate(whole(value, scale)));
            }),
        }
    }
}

struct FromIntegers<'a, F, Q> {
    values: &'a [Q],
    scales: &'a [f32],
    zeros: Option<&'a [Q]>,
    to: &'a mut [MaybeUninit<F>],
}

impl<F: Float, Q: Quantized> SimdFn for FromIntegers<'_, F, Q> {
    #[inline(always)]
    fn run(self) {
        let pairs = self.to.iter_mut().zip(self.values).zip(self.scales);
        match self.zeros {
            Some(zeros) => pairs.zip(zeros).for_each(|(((to, &value), &scale), &zero)| {
                to.write(value.minus::<F>(zero) * F::from_f32(scale));
            }),
            None => pairs.for_each(|((to, &value), &scale)| {
                to.write(value.number::<F>() * F::from_f32(scale));
            }),
        }
    }
}

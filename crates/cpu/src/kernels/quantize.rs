//! Conversion to and from integers with a scale.

use std::mem::MaybeUninit;

use millstream_core::{DType, Operand, QuantizePart, RawBuffer};

use crate::kernels::shared::block::{Input, Output, Scratch, base, each_block};
use crate::kernels::shared::number::{Float, Stored, with_float};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::walk::Walk;

/// A type of quantized numbers.
trait Quantized: Stored<Compute = Self> {
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
        match $dtype {
            DType::U8 => {
                type $type = u8;
                $body
            }
            DType::I8 => {
                type $type = i8;
                $body
            }
            DType::U16 => {
                type $type = u16;
                $body
            }
            DType::I16 => {
                type $type = i16;
                $body
            }
            DType::I32 => {
                type $type = i32;
                $body
            }
            other => unreachable!("{other} is not a type of quantized numbers"),
        }
    };
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn quantize(part: &QuantizePart<RawBuffer>, parallel: &dyn Parallel) {
    let QuantizePart { dst, src, scale, zero } = part;
    let walk = walk(part);
    with_quantized!(dst.layout.dtype(), Q => with_float!(src.layout.dtype(), T => {
        // SAFETY: passed on.
        let (to, from, scales, zeros) = unsafe {
            let to = base::<Q>(dst);
            let zeros = zero.as_ref().map(|zero| Input::<Q>::new(base(zero), 3, to));
            (to, base::<T>(src), Scales::new(scale, to), zeros)
        };
        let (output, input) = (Output::new(to, 0), Input::new(from, 1, to));
        each_block(&walk, parallel, |start, len| {
            let (mut a, mut b, mut c) = (Scratch::new(), Scratch::new(), Scratch::new());
            let mut results = Scratch::new();
            // SAFETY: blocks are disjoint, and the loop writes all of its block.
            unsafe {
                let values = input.read(&walk, start, len, &mut a);
                let scales = scales.read(&walk, start, len, &mut b);
                let zeros = zeros.map(|zeros| zeros.read(&walk, start, len, &mut c));
                output.write(&walk, start, len, &mut results, |to| {
                    vectorized(ToIntegers { values, scales, zeros, to });
                });
            }
        });
    }));
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn dequantize(part: &QuantizePart<RawBuffer>, parallel: &dyn Parallel) {
    let QuantizePart { dst, src, scale, zero } = part;
    let walk = walk(part);
    with_quantized!(src.layout.dtype(), Q => with_float!(dst.layout.dtype(), T => {
        // SAFETY: passed on.
        let (to, from, scales, zeros) = unsafe {
            let to = base::<T>(dst);
            let zeros = zero.as_ref().map(|zero| Input::<Q>::new(base(zero), 3, to));
            (to, base::<Q>(src), Scales::new(scale, to), zeros)
        };
        let (output, input) = (Output::new(to, 0), Input::new(from, 1, to));
        each_block(&walk, parallel, |start, len| {
            let (mut a, mut b, mut c) = (Scratch::new(), Scratch::new(), Scratch::new());
            let mut results = Scratch::new();
            // SAFETY: blocks are disjoint, and the loop writes all of its block.
            unsafe {
                let values = input.read(&walk, start, len, &mut a);
                let scales = scales.read(&walk, start, len, &mut b);
                let zeros = zeros.map(|zeros| zeros.read(&walk, start, len, &mut c));
                output.write(&walk, start, len, &mut results, |to| {
                    vectorized(FromIntegers { values, scales, zeros, to });
                });
            }
        });
    }));
}

/// Output, input, scale and zero point; where there is none the scale stands in.
fn walk(part: &QuantizePart<RawBuffer>) -> Walk<4> {
    let QuantizePart { dst, src, scale, zero } = part;
    let zero = zero.as_ref().unwrap_or(scale);
    Walk::in_any_order([dst, src, scale, zero].map(|operand| &operand.layout))
}

/// Scales of a type that is known at run time: they are few, or one for many elements.
#[derive(Clone, Copy)]
enum Scales {
    F32(Input<f32>),
    F16(Input<half::f16>),
    BF16(Input<half::bf16>),
}

impl Scales {
    /// # Safety
    ///
    /// As for [`base`].
    unsafe fn new<D>(scale: &Operand<RawBuffer>, to: *const D) -> Self {
        // SAFETY: passed on.
        unsafe {
            match scale.layout.dtype() {
                DType::F32 => Scales::F32(Input::new(base(scale), 2, to)),
                DType::F16 => Scales::F16(Input::new(base(scale), 2, to)),
                _ => Scales::BF16(Input::new(base(scale), 2, to)),
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Input::read`].
    unsafe fn read<'a>(
        &self,
        walk: &Walk<4>,
        start: usize,
        len: usize,
        scratch: &'a mut Scratch<f32>,
    ) -> &'a [f32] {
        // SAFETY: passed on.
        unsafe {
            match self {
                Scales::F32(scales) => scales.read(walk, start, len, scratch),
                Scales::F16(scales) => scales.read(walk, start, len, scratch),
                Scales::BF16(scales) => scales.read(walk, start, len, scratch),
            }
        }
    }
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

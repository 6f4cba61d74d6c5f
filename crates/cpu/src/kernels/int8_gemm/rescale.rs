//! What is made of exact sums: numbers in floating point, or 8-bit integers with a scale again.

use std::mem::MaybeUninit;

use half::{bf16, f16};
use millstream_core::{DType, Operand, RawBuffer, Rescale};

use super::TILE_COLUMNS;
use crate::kernels::shared::activation;
use crate::kernels::shared::block::base;
use crate::kernels::shared::byte::{Byte, ToBytes};
use crate::kernels::shared::number::Stored;
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// The operands that sums meet: scales of both operands, what is added, and the scale and zero point of bytes.
#[derive(Clone, Copy)]
pub(crate) struct RescaleOperands<'a> {
    pub rescale: Rescale,
    pub scales: [&'a Operand<RawBuffer>; 2],
    pub bias: Option<&'a Operand<RawBuffer>>,
    pub residual: Option<&'a Operand<RawBuffer>>,
    pub dst_scale: Option<&'a Operand<RawBuffer>>,
    pub dst_zero: Option<&'a Operand<RawBuffer>>,
}

/// The type of a result.
pub(crate) trait RescaledElement: Stored {
    /// The type of what is added in floating point.
    type Added: Stored<Compute = f32>;

    /// Makes results of numbers, which are as many as a tile has columns at most, and hands them over. Bytes
    /// have this scale and zero point.
    fn make(values: &[f32], scale: (f32, f32), store: impl FnOnce(&[Self::Compute]));
}

macro_rules! rescaled_floats {
    ($($type:ty),*) => {$(
        impl RescaledElement for $type {
            type Added = $type;

            #[inline(always)]
            fn make(values: &[f32], _: (f32, f32), store: impl FnOnce(&[f32])) {
                store(values);
            }
        }
    )*};
}

rescaled_floats!(f32, f16, bf16);

macro_rules! rescaled_bytes {
    ($($type:ty),*) => {$(
        impl RescaledElement for $type {
            type Added = f32;

            #[inline(always)]
            fn make(values: &[f32], scale: (f32, f32), store: impl FnOnce(&[$type])) {
                store(to_bytes(values, scale, &mut [MaybeUninit::uninit(); TILE_COLUMNS]));
            }
        }
    )*};
}

rescaled_bytes!(u8, i8);

fn to_bytes<'a, Q: Byte>(
    values: &[f32],
    (scale, zero): (f32, f32),
    bytes: &'a mut [MaybeUninit<Q>; TILE_COLUMNS],
) -> &'a [Q] {
    let to = &mut bytes[..values.len()];
    vectorized(ToBytes { values, scale, zero, to: &mut *to });
    // SAFETY: the loop wrote all of them.
    unsafe { to.assume_init_ref() }
}

/// Runs a body with `$type` standing for the type of a result.
macro_rules! with_rescaled {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $type = f32;
                $body
            }
            DType::F16 => {
                type $type = half::f16;
                $body
            }
            DType::BF16 => {
                type $type = half::bf16;
                $body
            }
            DType::U8 => {
                type $type = u8;
                $body
            }
            DType::I8 => {
                type $type = i8;
                $body
            }
            other => unreachable!("sums are not made {other}"),
        }
    };
}

pub(crate) use with_rescaled;

impl RescaleOperands<'_> {
    /// The bias where it is added to sums, and where it is added to numbers.
    pub fn biases(&self) -> [Option<&Operand<RawBuffer>>; 2] {
        let integer = self.bias.is_some_and(|bias| bias.layout.dtype() == DType::I32);
        if integer { [self.bias, None] } else { [None, self.bias] }
    }

    /// The scale and the zero point of bytes, and anything of other results.
    ///
    /// # Safety
    ///
    /// The operands may be read.
    pub unsafe fn dst_scale(&self) -> (f32, f32) {
        // SAFETY: passed on; both have one element.
        unsafe {
            let scale = self.dst_scale.map_or(1.0, |scale| base::<f32>(scale).read());
            let zero = self.dst_zero.map_or(0.0, |zero| match zero.layout.dtype() {
                DType::I8 => f32::from(base::<i8>(zero).read()),
                _ => f32::from(base::<u8>(zero).read()),
            });
            (scale, zero)
        }
    }
}

/// What sums are multiplied with.
pub(crate) enum Scales<'a> {
    One(f32),
    /// One for each column, and one for all.
    Each(f32, &'a [f32]),
}

/// `scale · sum`, with the sum rounded to `f32` first.
pub(crate) struct Scale<'a> {
    pub sums: &'a [i32],
    pub scales: Scales<'a>,
    pub to: &'a mut [f32],
}

impl SimdFn for Scale<'_> {
    #[inline(always)]
    fn run(self) {
        let pairs = self.to.iter_mut().zip(self.sums);
        match self.scales {
            Scales::One(scale) => pairs.for_each(|(to, &sum)| *to = scale * sum as f32),
            Scales::Each(all, each) => pairs.zip(each).for_each(|((to, &sum), &scale)| {
                *to = (all * scale) * sum as f32;
            }),
        }
    }
}

/// An activation of all of a row.
pub(crate) struct Activate<'a> {
    pub activation: millstream_core::Activation,
    pub values: &'a mut [f32],
}

impl SimdFn for Activate<'_> {
    #[inline(always)]
    fn run(self) {
        activation::apply(self.activation, self.values);
    }
}

/// Adds integers, a distance apart, to sums, which wrap around.
///
/// # Safety
///
/// So many may be read.
pub(crate) unsafe fn add_to_sums(first: *const i32, stride: usize, sums: &mut [i32]) {
    for (index, sum) in sums.iter_mut().enumerate() {
        // SAFETY: passed on.
        *sum = sum.wrapping_add(unsafe { first.add(index * stride).read() });
    }
}

/// Adds numbers, a distance apart, to as many values as a tile has columns at most.
///
/// # Safety
///
/// So many may be read.
pub(crate) unsafe fn add<T: Stored<Compute = f32>>(
    first: *const T,
    stride: usize,
    values: &mut [f32],
) {
    // SAFETY: passed on.
    unsafe {
        match stride {
            0 => {
                let one = first.read().widen();
                values.iter_mut().for_each(|value| *value += one);
            }
            1 => {
                let mut wide = [MaybeUninit::uninit(); TILE_COLUMNS];
                let wide = &mut wide[..values.len()];
                T::widen_run(std::slice::from_raw_parts(first, values.len()), wide);
                vectorized(Sum { added: wide.assume_init_ref(), values });
            }
            _ => {
                for (index, value) in values.iter_mut().enumerate() {
                    *value += first.add(index * stride).read().widen();
                }
            }
        }
    }
}

struct Sum<'a> {
    added: &'a [f32],
    values: &'a mut [f32],
}

impl SimdFn for Sum<'_> {
    #[inline(always)]
    fn run(self) {
        for (value, &added) in self.values.iter_mut().zip(self.added) {
            *value += added;
        }
    }
}

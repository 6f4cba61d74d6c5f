//! Fill, and copies between any two element types and layouts.

use std::mem::MaybeUninit;

use half::{bf16, f16};
use millstream_core::{DType, Operand, RawBuffer, Scalar, f32_round_to_odd};

use crate::kernels::shared::block::{Output, Scratch, base, each_block};
use crate::kernels::shared::number::{Bool, Stored, with_bits};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::span::{Span, Whole};
use crate::kernels::shared::transpose;
use crate::kernels::shared::walk::Walk;
use crate::kernels::storage;

/// Gives every element one value.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn fill(dst: &Operand<RawBuffer>, value: Scalar, parallel: &dyn Parallel) {
    let dtype = dst.layout.dtype();
    let bytes = value.to_bytes(dtype);
    let walk = Walk::in_any_order([&dst.layout]);
    with_bits!(dtype, Bits => {
        let mut element = [0; size_of::<Bits>()];
        element.copy_from_slice(&bytes[..size_of::<Bits>()]);
        let value = Bits::from_ne_bytes(element);
        // SAFETY: passed on.
        let output = Output::<Bits>::new(unsafe { base(dst) }, 0).of_elements(walk.elements());
        each_block(&walk, parallel, |start, len| {
            // SAFETY: blocks are disjoint parts of the output, and all of the block is filled.
            unsafe {
                output.write(&walk, start, len, &mut Scratch::new(), |block| {
                    block.fill(MaybeUninit::new(value));
                });
            }
        });
    });
}

/// Copies, converting the element type.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn copy(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    // SAFETY: passed on.
    unsafe { cast(dst, src, true, parallel) }
}

/// Copies, converting the element type. `saturate` is as for [`Op::Copy`](millstream_core::Op::Copy).
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn cast(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    saturate: bool,
    parallel: &dyn Parallel,
) {
    let (to, from) = (dst.layout.dtype(), src.layout.dtype());
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        if to.is_storage() || from.is_storage() {
            return storage::copy(dst, src, saturate, parallel);
        }
        if to == from && with_bits!(to, Bits => transposed::<Bits>(dst, src, parallel)) {
            return;
        }
        convert(from, to, Whole { dst, inputs: [src], parallel });
    }
}

/// Copies operands of one type that lie across each other, or says that they do not.
unsafe fn transposed<T: Stored<Compute = T>>(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> bool {
    let walk = Walk::in_any_order([&dst.layout, &src.layout]);
    // SAFETY: passed on. A copy in place has one layout for both, which is not transposed.
    unsafe { transpose::copy::<T>(&walk, base(dst), base(src), parallel) }
}

/// Converts a span of elements.
///
/// # Safety
///
/// The types are those of the span.
#[inline]
pub(super) unsafe fn convert(from: DType, to: DType, span: impl Span<1>) {
    // SAFETY: passed on. All of the output is filled.
    unsafe {
        if to == from {
            return with_bits!(to, Bits => span.apply::<Bits, Bits>(|[from], to| {
                to.write_copy_of_slice(from);
            }));
        }
        match from {
            DType::F32 => from_type::<f32>(to, span),
            DType::F16 => from_type::<f16>(to, span),
            DType::BF16 => from_type::<bf16>(to, span),
            DType::F64 => from_type::<f64>(to, span),
            DType::I8 => from_type::<i8>(to, span),
            DType::U8 => from_type::<u8>(to, span),
            DType::I32 => from_type::<i32>(to, span),
            DType::I64 => from_type::<i64>(to, span),
            DType::Bool => from_type::<Bool>(to, span),
            DType::I16 => from_type::<i16>(to, span),
            DType::U16 => from_type::<u16>(to, span),
            DType::U32 => from_type::<u32>(to, span),
            DType::U64 => from_type::<u64>(to, span),
            other => unreachable!("{other} is only stored"),
        }
    }
}

#[inline]
unsafe fn from_type<S: Stored<Compute: Cast>>(to: DType, span: impl Span<1>) {
    // SAFETY: passed on.
    unsafe {
        match to {
            DType::F32 => each::<S, f32>(span, Cast::to_f32),
            DType::F16 => each::<S, f16>(span, Cast::to_f32_for_16_bits),
            DType::BF16 => each::<S, bf16>(span, Cast::to_f32_for_16_bits),
            DType::F64 => each::<S, f64>(span, Cast::to_f64),
            DType::I8 => each::<S, i8>(span, Cast::to_i8),
            DType::U8 => each::<S, u8>(span, Cast::to_u8),
            DType::I32 => each::<S, i32>(span, Cast::to_i32),
            DType::I64 => each::<S, i64>(span, Cast::to_i64),
            DType::Bool => each::<S, u8>(span, |value| u8::from(value.is_true())),
            DType::I16 => each::<S, i16>(span, Cast::to_i16),
            DType::U16 => each::<S, u16>(span, Cast::to_u16),
            DType::U32 => each::<S, u32>(span, Cast::to_u32),
            DType::U64 => each::<S, u64>(span, Cast::to_u64),
            other => unreachable!("{other} is only stored"),
        }
    }
}

#[inline]
pub(super) unsafe fn each<S: Stored, D: Stored>(
    span: impl Span<1>,
    function: impl Fn(S::Compute) -> D::Compute + Sync,
) {
    // SAFETY: passed on.
    unsafe {
        span.apply::<S, D>(|[from], to| {
            for (to, &from) in to.iter_mut().zip(from) {
                to.write(function(from));
            }
        });
    }
}

/// Conversions as Rust's `as` does them.
pub(super) trait Cast: Copy {
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn to_i8(self) -> i8;
    fn to_i16(self) -> i16;
    fn to_i32(self) -> i32;
    fn to_i64(self) -> i64;
    fn to_u8(self) -> u8;
    fn to_u16(self) -> u16;
    fn to_u32(self) -> u32;
    fn to_u64(self) -> u64;
    fn is_true(self) -> bool;

    /// As `f32`, such that rounding it further to 16 bits is the only rounding that shows.
    fn to_f32_for_16_bits(self) -> f32;
}

macro_rules! cast {
    ($type:ty, to_16_bits: $to_16_bits:expr) => {
        impl Cast for $type {
            cast!(@to $type: to_f32 f32, to_f64 f64);
            cast!(@to $type: to_i8 i8, to_i16 i16, to_i32 i32, to_i64 i64);
            cast!(@to $type: to_u8 u8, to_u16 u16, to_u32 u32, to_u64 u64);

            #[inline(always)]
            fn is_true(self) -> bool {
                self != 0 as $type
            }

            #[inline(always)]
            fn to_f32_for_16_bits(self) -> f32 {
                $to_16_bits(self)
            }
        }
    };
    (@to $type:ty: $($name:ident $target:ty),*) => {
        $(
            #[inline(always)]
            fn $name(self) -> $target {
                self as $target
            }
        )*
    };
}

cast!(f32, to_16_bits: std::convert::identity);
cast!(f64, to_16_bits: f32_round_to_odd);
cast!(i8, to_16_bits: f32::from);
cast!(u8, to_16_bits: f32::from);
cast!(i16, to_16_bits: f32::from);
cast!(u16, to_16_bits: f32::from);
cast!(i32, to_16_bits: |value| f32_round_to_odd(f64::from(value)));
cast!(u32, to_16_bits: |value| f32_round_to_odd(f64::from(value)));
cast!(i64, to_16_bits: |value: i64| {
    let size = f64_round_to_odd(value.unsigned_abs());
    f32_round_to_odd(if value < 0 { -size } else { size })
});
cast!(u64, to_16_bits: |value| f32_round_to_odd(f64_round_to_odd(value)));

/// As `f64` for a further rounding: the low bits of a large value do not fit, so the last bit that
/// does remembers whether any of them was set.
#[inline(always)]
fn f64_round_to_odd(value: u64) -> f64 {
    const LOW: u64 = 0xFFF;
    if value < 1 << 52 {
        value as f64
    } else {
        ((value & !LOW) | u64::from(value & LOW != 0) << 12) as f64
    }
}

#[cfg(test)]
mod tests;

//! Element types in memory and the types their kernels compute in.

use std::mem::MaybeUninit;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use millstream_core::{DType, f32_round_to_odd};

/// An element as it lies in a buffer.
pub(crate) trait Stored: Copy + Send + Sync + 'static {
    /// What kernels compute in: `f32` for the 16-bit floating-point types, else the type itself.
    type Compute: Copy + Send + Sync + 'static;

    /// Whether `Compute` is the same type in memory, so that no conversion is needed.
    const DIRECT: bool;

    fn widen(self) -> Self::Compute;

    /// Rounds to nearest, ties to even.
    fn narrow(value: Self::Compute) -> Self;

    /// Widens a dense run. The slices have one length.
    #[inline(always)]
    fn widen_run(from: &[Self], to: &mut [MaybeUninit<Self::Compute>]) {
        for (to, &from) in to.iter_mut().zip(from) {
            to.write(from.widen());
        }
    }

    /// Narrows a dense run. The slices have one length.
    #[inline(always)]
    fn narrow_run(from: &[Self::Compute], to: &mut [MaybeUninit<Self>]) {
        for (to, &from) in to.iter_mut().zip(from) {
            to.write(Self::narrow(from));
        }
    }
}

macro_rules! stored_as_computed {
    ($($type:ty),*) => {
        $(
            impl Stored for $type {
                type Compute = $type;
                const DIRECT: bool = true;

                #[inline(always)]
                fn widen(self) -> $type {
                    self
                }

                #[inline(always)]
                fn narrow(value: $type) -> $type {
                    value
                }
            }
        )*
    };
}

stored_as_computed!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

/// A truth value in memory: one byte, 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Bool(pub u8);

impl Stored for Bool {
    type Compute = u8;
    const DIRECT: bool = true;

    #[inline(always)]
    fn widen(self) -> u8 {
        self.0
    }

    #[inline(always)]
    fn narrow(value: u8) -> Self {
        Bool(value)
    }
}

impl Stored for bf16 {
    type Compute = f32;
    const DIRECT: bool = false;

    #[inline(always)]
    fn widen(self) -> f32 {
        // Not `bf16::to_f32`, which has a branch for NaN that keeps the loop from being vectorized.
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        // As `bf16::from_f32`, with a selection in place of its branch. NaN stays NaN, quiet.
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
        let quiet = bits >> 16 | 0x40;
        bf16::from_bits(if value.is_nan() { quiet } else { rounded } as u16)
    }
}

impl Stored for f16 {
    type Compute = f32;
    const DIRECT: bool = false;

    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        f16::from_f32(value)
    }

    // The conversions of whole slices use the instructions of the CPU, found once per call
    // rather than once per element.
    #[inline]
    fn widen_run(from: &[Self], to: &mut [MaybeUninit<f32>]) {
        from.convert_to_f32_slice(zeroed(to, 0.0));
    }

    #[inline]
    fn narrow_run(from: &[f32], to: &mut [MaybeUninit<Self>]) {
        zeroed(to, f16::ZERO).convert_from_f32_slice(from);
    }
}

/// Initializes a run so that it can be handed to code that expects values.
fn zeroed<T: Copy>(run: &mut [MaybeUninit<T>], zero: T) -> &mut [T] {
    for element in &mut *run {
        element.write(zero);
    }
    // SAFETY: every element was just written.
    unsafe { run.assume_init_mut() }
}

/// A floating-point element whose sums are kept in `f64`.
pub(crate) trait StoredFloat: Stored<Compute: Float> {
    /// Rounds once, to nearest, ties to even.
    fn from_f64(value: f64) -> Self;
}

impl StoredFloat for f32 {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl StoredFloat for f64 {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
}

impl StoredFloat for f16 {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        millstream_core::f16_from_f64(value)
    }
}

impl StoredFloat for bf16 {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        millstream_core::bf16_from_f64(value)
    }
}

pub(crate) use super::math::Float;

/// A number in the type that a dtype is computed in, such that storing it is the only rounding that shows.
#[inline(always)]
pub(crate) fn rounded<C: Float>(value: f64, stored: DType) -> C {
    match stored {
        DType::F16 | DType::BF16 => C::from_f32(f32_round_to_odd(value)),
        _ => C::from_f64(value),
    }
}

/// Runs a body with `$type` standing for the stored type of a dtype, one of those in the list.
macro_rules! with_dtype {
    ($dtype:expr, $type:ident of [$($variant:ident: $stored:ty),*] or $other:literal => $body:expr) => {
        match $dtype {
            $(
                DType::$variant => {
                    type $type = $stored;
                    $body
                }
            )*
            other => unreachable!("{} {}", other, $other),
        }
    };
}

/// The same for a floating-point dtype.
macro_rules! with_float {
    ($dtype:expr, $type:ident => $body:expr) => {
        $crate::kernels::shared::number::with_dtype!(
            $dtype,
            $type of [F32: f32, F16: half::f16, BF16: half::bf16, F64: f64]
            or "is not a floating-point type" => $body
        )
    };
}

/// The same for a floating-point dtype that is computed with as `f32`.
macro_rules! with_f32 {
    ($dtype:expr, $type:ident => $body:expr) => {
        $crate::kernels::shared::number::with_dtype!(
            $dtype,
            $type of [F32: f32, F16: half::f16, BF16: half::bf16]
            or "is not computed with as f32" => $body
        )
    };
}

/// Runs a body with `$type` standing for the type that a floating-point dtype is computed in.
macro_rules! with_computed_float {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                type $type = f32;
                $body
            }
            DType::F64 => {
                type $type = f64;
                $body
            }
            other => unreachable!("{other} is not a floating-point type"),
        }
    };
}

/// The same for an integer dtype, or truth values, where one that is as wide as any will do.
macro_rules! with_computed_int {
    ($dtype:expr, $type:ident => $body:expr) => {
        if $dtype.is_signed() {
            type $type = i64;
            $body
        } else {
            type $type = u64;
            $body
        }
    };
}

/// Runs a body with `$type` standing for the stored type of an integer dtype.
macro_rules! with_int {
    ($dtype:expr, $type:ident => $body:expr) => {
        $crate::kernels::shared::number::with_dtype!(
            $dtype,
            $type of [I8: i8, U8: u8, I32: i32, I64: i64, I16: i16, U16: u16, U32: u32, U64: u64]
            or "is not an integer type" => $body
        )
    };
}

/// Runs a body with `$type` standing for an unsigned integer of the size of a dtype.
macro_rules! with_bits {
    ($dtype:expr, $type:ident => $body:expr) => {
        $crate::kernels::shared::number::with_size!($dtype.size(), $type => $body)
    };
}

/// Runs a body with `$type` standing for an unsigned integer of so many bytes.
macro_rules! with_size {
    ($size:expr, $type:ident => $body:expr) => {
        match $size {
            1 => {
                type $type = u8;
                $body
            }
            2 => {
                type $type = u16;
                $body
            }
            4 => {
                type $type = u32;
                $body
            }
            _ => {
                type $type = u64;
                $body
            }
        }
    };
}

pub(crate) use {
    with_bits, with_computed_float, with_computed_int, with_dtype, with_f32, with_float, with_int,
    with_size,
};

#[cfg(test)]
mod tests;

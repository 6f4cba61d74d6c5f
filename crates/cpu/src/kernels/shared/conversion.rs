//! Conversions of dense runs between any two element types, as Rust's `as` does them.
//!
//! A function serves all pairs of types whose results have the same bits, and floating-point types meet in `f32` and
//! `f64`: what has no function of its own goes through the one that has all its values. Loops for all 169 pairs, one
//! for whole operands and one for tiles of a chain, were a twelfth of the crate's machine code.

mod f16_runs;

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use half::{bf16, f16};
use millstream_core::{DType, f32_round_to_odd};

use super::block::{BLOCK, blocks};
use super::number::{Bool, Stored, with_size};
use super::simd::Isa;
use f16_runs::{narrow_f16, widen_f16};

/// Converts so many elements that lie one after another.
///
/// # Safety
///
/// The pointers are valid for so many elements of the two types, the first are initialized, and the runs do not
/// overlap.
pub(crate) type ConvertRun = unsafe fn(from: *const u8, to: *mut u8, count: usize);

/// How runs of one type become runs of another.
#[derive(Clone, Copy)]
pub(crate) enum Conversion {
    Direct(ConvertRun),
    /// Block by block, through a third type.
    Through {
        first: ConvertRun,
        second: ConvertRun,
        /// Bytes of the elements that are read, and of those that are made.
        sizes: [usize; 2],
    },
}

impl Conversion {
    /// Both are types that are computed with.
    pub fn new(from: DType, to: DType) -> Self {
        if let Some(run) = direct(from, to) {
            return Conversion::Direct(run);
        }
        // Types of 8 and 16 bits have functions to and from this one, which has all their values.
        let step = |from, to| direct(from, to).expect("a type that the others meet in");
        let (first, second) = (step(from, DType::F32), step(DType::F32, to));
        Conversion::Through { first, second, sizes: [from.size(), to.size()] }
    }

    /// Converts a run.
    ///
    /// # Safety
    ///
    /// As for [`ConvertRun`].
    #[inline]
    pub unsafe fn run(self, from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: passed on.
        unsafe {
            match self {
                Conversion::Direct(run) => run(from, to, count),
                Conversion::Through { first, second, sizes } => {
                    through([first, second], sizes, from, to, count);
                }
            }
        }
    }
}

/// # Safety
///
/// As for [`ConvertRun`], of elements of these sizes.
#[inline(never)]
unsafe fn through(
    [first, second]: [ConvertRun; 2],
    sizes: [usize; 2],
    from: *const u8,
    to: *mut u8,
    count: usize,
) {
    // Room for the largest elements.
    let mut between = [const { MaybeUninit::<u64>::uninit() }; BLOCK];
    let between = between.as_mut_ptr().cast::<u8>();
    for (start, len) in blocks(count, BLOCK) {
        // SAFETY: passed on.
        unsafe {
            first(from.add(start * sizes[0]), between, len);
            second(between, to.add(start * sizes[1]), len);
        }
    }
}

/// The function that converts from one type to another, if there is one for the pair.
fn direct(from: DType, to: DType) -> Option<ConvertRun> {
    Some(match (from, to) {
        _ if from == to => copy(from.size()),
        (DType::F32, DType::F16) => narrow_f16(),
        (DType::F32, DType::BF16) => compiled::<NarrowBf16>(),
        (DType::F16, DType::F32) => widen_f16(),
        (DType::BF16, DType::F32) => compiled::<WidenBf16>(),
        (DType::F16 | DType::BF16, _) => return None,
        (DType::F32, _) => from_wide::<f32>(to),
        (DType::F64, _) => from_wide::<f64>(to),
        (DType::I64, _) => from_wide::<i64>(to),
        (DType::U64, _) => from_wide::<u64>(to),
        (DType::U8 | DType::Bool, DType::F32) => compiled::<Each<u8, f32>>(),
        (DType::I8, DType::F32) => compiled::<Each<i8, f32>>(),
        (DType::I16, DType::F32) => compiled::<Each<i16, f32>>(),
        (DType::U16, DType::F32) => compiled::<Each<u16, f32>>(),
        (DType::I32, DType::F32) => compiled::<Each<i32, f32>>(),
        (DType::U32, DType::F32) => compiled::<Each<u32, f32>>(),
        (DType::I32, DType::F64) => compiled::<Each<i32, f64>>(),
        (DType::U32, DType::F64) => compiled::<Each<u32, f64>>(),
        (DType::I32, DType::F16) => round::<i32, f16>,
        (DType::U32, DType::F16) => round::<u32, f16>,
        (DType::I32, DType::BF16) => round::<i32, bf16>,
        (DType::U32, DType::BF16) => round::<u32, bf16>,
        _ if to.is_float() => return None,
        _ => between_integers(from, to),
    })
}

/// The function that converts an integer of at most 32 bits, or a truth value, to an integer or truth value. Whether
/// the result has a sign does not change its bits.
fn between_integers(from: DType, to: DType) -> ConvertRun {
    match (from.size(), to.size(), from.is_signed()) {
        (1, 1, _) if to == DType::Bool => compiled::<Each<u8, Bool>>(),
        (2, 1, _) if to == DType::Bool => compiled::<Each<u16, Bool>>(),
        (_, 1, _) if to == DType::Bool => compiled::<Each<u32, Bool>>(),
        (1, 1, _) | (2, 2, _) | (4, 4, _) => copy(from.size()),
        (2, 1, _) => compiled::<Each<u16, u8>>(),
        (4, 1, _) => compiled::<Each<u32, u8>>(),
        (4, 2, _) => compiled::<Each<u32, u16>>(),
        (1, 2, false) => compiled::<Each<u8, u16>>(),
        (1, 2, true) => compiled::<Each<i8, i16>>(),
        (1, 4, false) => compiled::<Each<u8, u32>>(),
        (1, 4, true) => compiled::<Each<i8, i32>>(),
        (2, 4, false) => compiled::<Each<u16, u32>>(),
        (2, 4, true) => compiled::<Each<i16, i32>>(),
        (1, _, false) => compiled::<Each<u8, u64>>(),
        (1, _, true) => compiled::<Each<i8, i64>>(),
        (2, _, false) => compiled::<Each<u16, u64>>(),
        (2, _, true) => compiled::<Each<i16, i64>>(),
        (_, _, false) => compiled::<Each<u32, u64>>(),
        (_, _, true) => compiled::<Each<i32, i64>>(),
    }
}

/// The function that converts from one of the widest types, or `f32`.
fn from_wide<S: Wide>(to: DType) -> ConvertRun {
    match to {
        DType::F32 => compiled::<Each<S, f32>>(),
        DType::F16 => round::<S, f16>,
        DType::BF16 => round::<S, bf16>,
        DType::F64 => compiled::<Each<S, f64>>(),
        DType::I8 => compiled::<Each<S, i8>>(),
        DType::U8 => compiled::<Each<S, u8>>(),
        DType::I16 => compiled::<Each<S, i16>>(),
        DType::U16 => compiled::<Each<S, u16>>(),
        DType::I32 => compiled::<Each<S, i32>>(),
        DType::U32 => compiled::<Each<S, u32>>(),
        DType::I64 => compiled::<Each<S, i64>>(),
        DType::U64 => compiled::<Each<S, u64>>(),
        DType::Bool => compiled::<Each<S, Bool>>(),
        other => unreachable!("{other} is only stored"),
    }
}

/// The function that copies elements of so many bytes.
fn copy(size: usize) -> ConvertRun {
    unsafe fn copy<T>(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: passed on.
        unsafe { to.cast::<T>().copy_from_nonoverlapping(from.cast(), count) }
    }
    with_size!(size, Bits => copy::<Bits>)
}

/// The slices of a run.
///
/// # Safety
///
/// As for [`ConvertRun`], of these types.
#[inline(always)]
unsafe fn slices<'a, S, D>(
    from: *const u8,
    to: *mut u8,
    count: usize,
) -> (&'a [S], &'a mut [MaybeUninit<D>]) {
    // SAFETY: passed on.
    unsafe {
        let from = std::slice::from_raw_parts(from.cast(), count);
        (from, std::slice::from_raw_parts_mut(to.cast(), count))
    }
}

/// Rounds to 16 bits once, from a type whose values `f32` does not have.
unsafe fn round<S: To16Bits, D: Stored<Compute = f32>>(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: passed on.
    let (from, to) = unsafe { slices::<S, D>(from, to, count) };
    let mut rounded = [0.0; 64];
    for (from, to) in from.chunks(rounded.len()).zip(to.chunks_mut(rounded.len())) {
        let rounded = &mut rounded[..from.len()];
        for (rounded, &value) in rounded.iter_mut().zip(from) {
            *rounded = value.to_f32_for_16_bits();
        }
        D::narrow_run(rounded, to);
    }
}

/// A loop that is compiled for each ISA.
trait Loop {
    type From: Copy;
    type To;

    /// Must be `#[inline(always)]`.
    fn run(from: &[Self::From], to: &mut [MaybeUninit<Self::To>]);
}

/// The function with a loop for the ISA of this CPU. It is found once for many runs, which may be short.
fn compiled<L: Loop>() -> ConvertRun {
    match Isa::detect() {
        Isa::Portable => portable::<L>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => with_avx2::<L>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => with_avx512::<L>,
    }
}

#[inline(always)]
unsafe fn portable<L: Loop>(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: passed on.
    let (from, to) = unsafe { slices(from, to, count) };
    L::run(from, to);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn with_avx2<L: Loop>(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: passed on.
    unsafe { portable::<L>(from, to, count) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn with_avx512<L: Loop>(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: passed on.
    unsafe { portable::<L>(from, to, count) }
}

struct Each<S, D>(PhantomData<(S, D)>);

impl<S: Cast<D> + Copy, D> Loop for Each<S, D> {
    type From = S;
    type To = D;

    #[inline(always)]
    fn run(from: &[S], to: &mut [MaybeUninit<D>]) {
        for (to, &from) in to.iter_mut().zip(from) {
            to.write(from.cast());
        }
    }
}

struct WidenBf16;

impl Loop for WidenBf16 {
    type From = bf16;
    type To = f32;

    #[inline(always)]
    fn run(from: &[bf16], to: &mut [MaybeUninit<f32>]) {
        bf16::widen_run(from, to);
    }
}

struct NarrowBf16;

impl Loop for NarrowBf16 {
    type From = f32;
    type To = bf16;

    #[inline(always)]
    fn run(from: &[f32], to: &mut [MaybeUninit<bf16>]) {
        bf16::narrow_run(from, to);
    }
}

/// One conversion.
trait Cast<D> {
    fn cast(self) -> D;
}

macro_rules! casts {
    ($($from:ty => $($to:ty),*;)*) => {
        $($(
            impl Cast<$to> for $from {
                #[inline(always)]
                fn cast(self) -> $to {
                    self as $to
                }
            }
        )*)*
    };
}

casts! {
    f32 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    f64 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    i64 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    u64 => f32, f64, i8, u8, i16, u16, i32, u32, i64, u64;
    i8 => f32, i16, i32, i64;
    u8 => f32, u16, u32, u64;
    i16 => f32, i32, i64;
    u16 => f32, u8, u32, u64;
    i32 => f32, f64, i64;
    u32 => f32, f64, u8, u16, u64;
}

macro_rules! truth {
    ($($from:ty),*) => {
        $(
            impl Cast<Bool> for $from {
                #[inline(always)]
                fn cast(self) -> Bool {
                    Bool(u8::from(self != 0 as $from))
                }
            }
        )*
    };
}

truth!(f32, f64, i64, u64, u8, u16, u32);

/// `f32` or one of the widest types: they become any other at once.
trait Wide:
    Cast<f32>
    + Cast<f64>
    + Cast<i8>
    + Cast<u8>
    + Cast<i16>
    + Cast<u16>
    + Cast<i32>
    + Cast<u32>
    + Cast<i64>
    + Cast<u64>
    + Cast<Bool>
    + To16Bits
{
}

/// A type whose values `f32` may not have.
trait To16Bits: Copy {
    /// As `f32`, such that rounding it further to 16 bits is the only rounding that shows.
    fn to_f32_for_16_bits(self) -> f32;
}

impl Wide for f32 {}
impl Wide for f64 {}
impl Wide for i64 {}
impl Wide for u64 {}

macro_rules! to_16_bits {
    ($($type:ty: $to_16_bits:expr;)*) => {
        $(
            impl To16Bits for $type {
                #[inline(always)]
                fn to_f32_for_16_bits(self) -> f32 {
                    $to_16_bits(self)
                }
            }
        )*
    };
}

to_16_bits! {
    f32: std::convert::identity;
    f64: f32_round_to_odd;
    i32: |value| f32_round_to_odd(f64::from(value));
    u32: |value| f32_round_to_odd(f64::from(value));
    i64: |value: i64| {
        let size = f64_round_to_odd(value.unsigned_abs());
        f32_round_to_odd(if value < 0 { -size } else { size })
    };
    u64: |value| f32_round_to_odd(f64_round_to_odd(value));
}

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

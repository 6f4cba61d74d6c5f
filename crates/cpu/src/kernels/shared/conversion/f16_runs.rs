//! Runs of `f16`, with the instructions of the CPU.

use half::f16;

use super::{ConvertRun, slices};
use crate::kernels::shared::number::Stored;
use crate::kernels::shared::simd::Isa;

/// The function that makes `f32`.
pub(super) fn widen_f16() -> ConvertRun {
    match Isa::detect() {
        Isa::Portable => widen,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => x86::widen,
    }
}

/// The function that makes `f16` of `f32`, rounding to nearest, ties to even.
pub(super) fn narrow_f16() -> ConvertRun {
    match Isa::detect() {
        Isa::Portable => narrow,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => x86::narrow,
    }
}

unsafe fn widen(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: passed on.
    let (from, to) = unsafe { slices::<f16, f32>(from, to, count) };
    f16::widen_run(from, to);
}

unsafe fn narrow(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: passed on.
    let (from, to) = unsafe { slices::<f32, f16>(from, to, count) };
    f16::narrow_run(from, to);
}

/// For each ISA above the portable one, which all have these instructions.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Elements that are converted at once.
    const WIDTH: usize = 8;

    #[target_feature(enable = "avx,f16c")]
    pub unsafe fn widen(from: *const u8, to: *mut u8, count: usize) {
        let (from, to) = (from.cast::<u16>(), to.cast::<f32>());
        let whole = count - count % WIDTH;
        // SAFETY: passed on; all elements are inside the runs, and no access asks for more than their alignment.
        unsafe {
            for i in (0..whole).step_by(WIDTH) {
                let halves = _mm_loadu_si128(from.add(i).cast());
                _mm256_storeu_ps(to.add(i), _mm256_cvtph_ps(halves));
            }
            for i in whole..count {
                let half = _mm_cvtsi32_si128(i32::from(from.add(i).read()));
                to.add(i).write(_mm_cvtss_f32(_mm_cvtph_ps(half)));
            }
        }
    }

    #[target_feature(enable = "avx,f16c")]
    pub unsafe fn narrow(from: *const u8, to: *mut u8, count: usize) {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;
        let (from, to) = (from.cast::<f32>(), to.cast::<u16>());
        let whole = count - count % WIDTH;
        // SAFETY: as above.
        unsafe {
            for i in (0..whole).step_by(WIDTH) {
                let halves = _mm256_cvtps_ph::<NEAREST>(_mm256_loadu_ps(from.add(i)));
                _mm_storeu_si128(to.add(i).cast(), halves);
            }
            for i in whole..count {
                let half = _mm_cvtps_ph::<NEAREST>(_mm_set_ss(from.add(i).read()));
                to.add(i).write(_mm_cvtsi128_si32(half) as u16);
            }
        }
    }
}

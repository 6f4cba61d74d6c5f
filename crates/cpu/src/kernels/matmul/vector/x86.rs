//! The vector registers of x86-64.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{Vector, Widen};

macro_rules! vector {
    ($register:ident of $lanes:literal $number:ident:
        $splat:ident, $load:ident, $store:ident, $add_product:ident) => {
        impl Vector for $register {
            type Number = $number;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(number: $number) -> Self {
                // SAFETY: the CPU has the registers.
                unsafe { $splat(number) }
            }

            #[inline(always)]
            unsafe fn load(from: *const $number) -> Self {
                // SAFETY: passed on.
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $number) {
                // SAFETY: passed on.
                unsafe { $store(to, self) }
            }

            #[inline(always)]
            unsafe fn add_product(self, lhs: Self, rhs: Self) -> Self {
                // SAFETY: the CPU has the registers.
                unsafe { $add_product(lhs, rhs, self) }
            }

            #[inline(always)]
            fn prefetch<T>(address: *const T) {
                // SAFETY: a hint, for which any address will do.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
            }
        }

        impl Widen<$number> for $register {
            #[inline(always)]
            unsafe fn widen(from: *const $number) -> Self {
                // SAFETY: passed on.
                unsafe { $load(from) }
            }
        }
    };
}

vector!(__m512 of 16 f32: _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps);
vector!(__m512d of 8 f64: _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_pd);
vector!(__m256 of 8 f32: _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps);
vector!(__m256d of 4 f64: _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_fmadd_pd);

impl Widen<f16> for __m512 {
    #[inline(always)]
    unsafe fn widen(from: *const f16) -> Self {
        // SAFETY: passed on; 16 elements are 256 bits.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }
}

impl Widen<bf16> for __m512 {
    #[inline(always)]
    unsafe fn widen(from: *const bf16) -> Self {
        // SAFETY: passed on; 16 elements are 256 bits.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        }
    }
}

impl Widen<f16> for __m256 {
    #[inline(always)]
    unsafe fn widen(from: *const f16) -> Self {
        // SAFETY: passed on; 8 elements are 128 bits.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }
}

impl Widen<bf16> for __m256 {
    #[inline(always)]
    unsafe fn widen(from: *const bf16) -> Self {
        // SAFETY: passed on; 8 elements are 128 bits.
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
        }
    }
}

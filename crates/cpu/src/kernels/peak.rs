//! Loops that do nothing but what the CPU does best.

use std::hint::black_box;

use crate::kernels::shared::simd::{Isa, SimdFn, vectorized};
use crate::kernels::shared::streaming;

/// Words that are stored past the caches at once.
const BURST: usize = streaming::BURST / size_of::<u32>();

/// Sums under way at once, enough to hide the time of one addition.
const SUMS: usize = 16;

/// Multiplies and adds `rounds` times in all sums of all lanes; returns the number of operations.
pub(crate) fn burn(rounds: usize) -> usize {
    let lanes = match Isa::detect() {
        Isa::Portable => burn_portable(rounds),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the ISA was detected.
        Isa::Avx2 => unsafe { x86::burn_avx2(rounds) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the ISA was detected.
        Isa::Avx512 => unsafe { x86::burn_avx512(rounds) },
    };
    2 * rounds * SUMS * lanes
}

fn burn_portable(rounds: usize) -> usize {
    const LANES: usize = 4;
    let half = black_box([0.5f32; LANES]);
    let mut sums = [[1f32; LANES]; SUMS / 2];
    for _ in 0..2 * rounds {
        for sum in &mut sums {
            for lane in 0..LANES {
                sum[lane] = sum[lane] * half[lane] + half[lane];
            }
        }
    }
    black_box(sums);
    LANES
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::SUMS;

    #[target_feature(enable = "avx2,fma")]
    pub fn burn_avx2(rounds: usize) -> usize {
        let half = black_box(_mm256_set1_ps(0.5));
        let mut sums = [half; SUMS / 2];
        for _ in 0..2 * rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, half, half);
            }
        }
        black_box(sums);
        8
    }

    #[target_feature(enable = "avx512f")]
    pub fn burn_avx512(rounds: usize) -> usize {
        let half = black_box(_mm512_set1_ps(0.5));
        let mut sums = [half; SUMS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, half, half);
            }
        }
        black_box(sums);
        16
    }
}

/// Reads everything once.
pub(crate) fn read(from: &[u32]) -> u32 {
    struct Read<'a>(&'a [u32], &'a mut u32);

    impl SimdFn for Read<'_> {
        #[inline(always)]
        fn run(self) {
            // Several sums, so that reading is all that takes time.
            const LANES: usize = 64;
            let mut sums = [0u32; LANES];
            for group in self.0.as_chunks::<LANES>().0 {
                for (sum, &value) in sums.iter_mut().zip(group) {
                    *sum ^= value;
                }
            }
            *self.1 = sums.iter().fold(0, |all, sum| all ^ sum);
        }
    }

    let mut sum = 0;
    vectorized(Read(from, &mut sum));
    sum
}

/// Fills everything once, past the caches.
pub(crate) fn fill_streaming(to: &mut [u32]) {
    let values = black_box([1; BURST]);
    for block in to.chunks_mut(BURST) {
        // SAFETY: there are as many values as the block has at most, and nobody else uses it.
        unsafe { streaming::store(&values[..block.len()], block.as_mut_ptr()) };
    }
    streaming::fence();
}

/// Copies everything once, past the caches.
///
/// # Panics
///
/// Slices of different lengths.
pub(crate) fn copy_streaming(from: &[u32], to: &mut [u32]) {
    assert_eq!(from.len(), to.len());
    // SAFETY: the slices have one length, and a mutable one has no other user.
    unsafe { streaming::store(from, to.as_mut_ptr()) };
    streaming::fence();
}

/// Adds everything once, past the caches.
pub(crate) fn add_streaming(a: &[u32], b: &[u32], to: &mut [u32]) {
    struct Add<'a>([&'a [u32]; 2], &'a mut [u32]);

    impl SimdFn for Add<'_> {
        #[inline(always)]
        fn run(self) {
            let [a, b] = self.0.map(|from| from.as_chunks::<BURST>().0);
            for ((a, b), to) in a.iter().zip(b).zip(self.1.as_chunks_mut::<BURST>().0) {
                let mut sums = [0; BURST];
                for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
                    *sum = a.wrapping_add(*b);
                }
                // SAFETY: a block has as many elements, and nobody else uses it.
                unsafe { streaming::store(&sums, to.as_mut_ptr()) };
            }
        }
    }

    vectorized(Add([a, b], to));
    streaming::fence();
}

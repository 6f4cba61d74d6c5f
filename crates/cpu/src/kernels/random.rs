//! Random numbers.

use std::mem::MaybeUninit;

use millstream_core::philox::{BLOCK_WORDS, block, normals, uniform};
use millstream_core::{DType, Distribution, Operand, RawBuffer};

use crate::kernels::shared::block::{BlockBuffer, each_block};
use crate::kernels::shared::number::{Float, with_computed_float};
use crate::kernels::shared::operand::{Computed, Output};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::walk::Walk;

/// Fills an operand with random numbers.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn random(
    distribution: Distribution,
    seed: u64,
    offset: u64,
    dst: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    // SAFETY: passed on.
    with_computed_float!(dst.layout.dtype(), C => unsafe {
        computed::<C>(distribution, seed, offset, dst, parallel);
    });
}

unsafe fn computed<C: Float + Computed>(
    distribution: Distribution,
    seed: u64,
    offset: u64,
    dst: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    // The number of an element is its place in the row-major order, whatever the memory.
    let walk = Walk::in_order([&dst.layout]);
    // SAFETY: passed on.
    let output = unsafe { Output::<C>::new(dst, 0) }.of_elements(walk.elements());
    each_block(&walk, parallel, &|start, len| {
        let position = offset.wrapping_add(start as u64);
        // SAFETY: blocks are disjoint parts of the output, and all of a block is written.
        unsafe {
            output.write(
                &walk,
                start,
                len,
                &mut BlockBuffer::new(),
                |results| match distribution {
                    Distribution::Uniform { low, high } => {
                        let numbers = Uniform { low, high };
                        vectorized(Generate { seed, position, results, numbers });
                    }
                    Distribution::Normal { mean, deviation } => {
                        let numbers = Normal { mean, deviation };
                        vectorized(Generate { seed, position, results, numbers });
                    }
                },
            );
        }
    });
}

/// Numbers made of the words of one block of the generator.
trait Numbers {
    fn of(&self, words: [u32; 4]) -> [f32; 4];
}

struct Uniform {
    low: f32,
    high: f32,
}

impl Numbers for Uniform {
    #[inline(always)]
    fn of(&self, words: [u32; 4]) -> [f32; 4] {
        words.map(|word| between(self.low, self.high, uniform(word)))
    }
}

struct Normal {
    mean: f32,
    deviation: f32,
}

impl Numbers for Normal {
    #[inline(always)]
    fn of(&self, words: [u32; 4]) -> [f32; 4] {
        normals(words).map(|unit| self.mean + self.deviation * unit)
    }
}

/// Writes the numbers from `position` on.
struct Generate<'a, F, N> {
    seed: u64,
    position: u64,
    results: &'a mut [MaybeUninit<F>],
    numbers: N,
}

impl<F: Float, N: Numbers> SimdFn for Generate<'_, F, N> {
    #[inline(always)]
    fn run(self) {
        let Generate { seed, position, results, numbers } = self;
        let (mut index, inside) = (position / BLOCK_WORDS, (position % BLOCK_WORDS) as usize);
        let mut rest = results;
        if inside != 0 {
            let (head, later) = rest.split_at_mut(rest.len().min(4 - inside));
            head.copy_from_slice(&make(seed, index, &numbers)[inside..][..head.len()]);
            (rest, index) = (later, index + 1);
        }
        let (whole, tail) = rest.as_chunks_mut::<4>();
        for (i, results) in whole.iter_mut().enumerate() {
            *results = make(seed, index + i as u64, &numbers);
        }
        if !tail.is_empty() {
            let last = make(seed, index + whole.len() as u64, &numbers);
            tail.copy_from_slice(&last[..tail.len()]);
        }
    }
}

/// The numbers of one block of the generator.
#[inline(always)]
fn make<F: Float>(seed: u64, index: u64, numbers: &impl Numbers) -> [MaybeUninit<F>; 4] {
    // Positions wrap around, and so does the number of their block.
    let words = block(seed, index % (u64::MAX / BLOCK_WORDS + 1));
    numbers.of(words).map(|value| MaybeUninit::new(F::from_f32(value)))
}

/// The point of `low ..= high` at a fraction of the way, which is below 1.
#[inline(always)]
fn between(low: f32, high: f32, fraction: f32) -> f32 {
    let span = high - low;
    if span.is_finite() {
        low + span * fraction
    } else {
        // Limits so far apart that their distance is no number: go half the way twice.
        let step = (high * 0.5 - low * 0.5) * fraction;
        low + step + step
    }
}

#[cfg(test)]
mod tests;

//! Random numbers.

use std::mem::MaybeUninit;

use millstream_core::philox::{BLOCK_WORDS, block, normals, uniform};
use millstream_core::{DType, Distribution, Operand, RawBuffer};

use crate::kernels::shared::block::{Output, Scratch, base, each_block};
use crate::kernels::shared::number::{Float, StoredFloat, with_float};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::simd::{Job, vectorised};
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
    with_float!(dst.layout.dtype(), T => unsafe {
        typed::<T>(distribution, seed, offset, dst, parallel);
    });
}

unsafe fn typed<T: StoredFloat>(
    distribution: Distribution,
    seed: u64,
    offset: u64,
    dst: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    // The number of an element is its place in the row-major order, whatever the memory.
    let walk = Walk::in_order([&dst.layout]);
    // SAFETY: passed on.
    let output = Output::<T>::new(unsafe { base(dst) }, 0).of_elements(walk.elements());
    each_block(&walk, parallel, |start, len| {
        let position = offset.wrapping_add(start as u64);
        // SAFETY: blocks are disjoint parts of the output, and all of a block is written.
        unsafe {
            output.write(&walk, start, len, &mut Scratch::new(), |results| match distribution {
                Distribution::Uniform { low, high } => {
                    let numbers = Uniform { low, high };
                    vectorised(Generate { seed, position, results, numbers });
                }
                Distribution::Normal { mean, deviation } => {
                    let numbers = Normal { mean, deviation };
                    vectorised(Generate { seed, position, results, numbers });
                }
            });
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

impl<F: Float, N: Numbers> Job for Generate<'_, F, N> {
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
mod tests {
    use millstream_core::{Command, Layout, philox};

    use super::*;
    use crate::kernels::shared::testing::{FLOATS, Tensor, assert_same_bits_in_any_order, run};

    const UNIFORM: Distribution = Distribution::Uniform { low: -1.0, high: 3.0 };
    const NORMAL: Distribution = Distribution::Normal { mean: 2.0, deviation: 0.5 };

    #[test]
    fn element_i_depends_on_seed_and_position_alone() {
        for distribution in [UNIFORM, NORMAL] {
            let whole = Tensor::output(DType::F32, &[100]);
            run(Command::random(whole.operand(), distribution, 9, 40));
            for start in 0..9 {
                let part = Tensor::output(DType::F32, &[13]);
                run(Command::random(part.operand(), distribution, 9, 40 + start));
                let start = start as usize;
                assert_eq!(part.values::<f32>(), whole.values::<f32>()[start..start + 13]);
            }
        }
    }

    #[test]
    fn numbers_are_those_of_the_generator() {
        let dst = Tensor::output(DType::F32, &[10]);
        run(Command::random(dst.operand(), UNIFORM, 1 << 40, u64::MAX - 3));
        for (i, value) in dst.values::<f32>().into_iter().enumerate() {
            let position = (u64::MAX - 3).wrapping_add(i as u64);
            assert_eq!(value, -1.0 + 4.0 * philox::uniform_at(1 << 40, position));
        }
        run(Command::random(dst.operand(), NORMAL, 5, 2));
        for (i, value) in dst.values::<f32>().into_iter().enumerate() {
            assert_eq!(value, 2.0 + 0.5 * philox::normal_at(5, 2 + i as u64));
        }
    }

    #[test]
    fn layouts_and_types_see_the_same_sequence() {
        let dense = Tensor::output(DType::F64, &[4, 150]);
        run(Command::random(dense.operand(), NORMAL, 3, 0));
        for dtype in FLOATS {
            let turned = Layout::contiguous(dtype, &[150, 4]).unwrap().transpose(0, 1).unwrap();
            let dst = Tensor::uninit(turned);
            run(Command::random(dst.operand(), NORMAL, 3, 0));
            let rounded = Tensor::floats(dtype, &[4, 150], &dense.to_f64());
            assert_eq!(dst.to_f64(), rounded.to_f64(), "{dtype}");
        }
    }

    #[test]
    fn limits_may_be_as_far_apart_as_numbers_go() {
        let dst = Tensor::output(DType::F32, &[1000]);
        let widest = Distribution::Uniform { low: f32::MIN, high: f32::MAX };
        run(Command::random(dst.operand(), widest, 3, 0));
        let values = dst.values::<f32>();
        assert!(values.iter().all(|value| value.is_finite()));
        assert!(values.iter().any(|&v| v > 2e38) && values.iter().any(|&v| v < -2e38));
    }

    #[test]
    fn results_do_not_depend_on_the_order_of_chunks() {
        let dst = Tensor::output(DType::F32, &[70_001]);
        let command = Command::random(dst.operand(), NORMAL, 3, 1).unwrap();
        assert_same_bits_in_any_order(&command, &dst);
    }
}

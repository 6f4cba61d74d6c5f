//! Random numbers.

use std::mem::MaybeUninit;

use millstream_core::philox::{BLOCK_WORDS, block, normals, uniform};
use millstream_core::{DType, Distribution, Operand, RawBuffer};

use super::block::{Output, Scratch, base, each_block};
use super::number::{Float, StoredFloat, with_float};
use super::parallel::Parallel;
use super::walk::Walk;

/// Fills an operand with random numbers.
///
/// # Safety
///
/// As for [`execute`](super::execute).
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
    let output = Output::<T>::new(unsafe { base(dst) }, 0);
    each_block(&walk, parallel, |start, len| {
        let position = offset.wrapping_add(start as u64);
        // SAFETY: blocks are disjoint parts of the output, and `generate` writes all it is given.
        unsafe {
            output.write(&walk, start, len, &mut Scratch::new(), |block| match distribution {
                Distribution::Uniform { low, high } => {
                    generate(
                        seed,
                        position,
                        block,
                        |words| words.map(uniform),
                        |unit| between(low, high, unit),
                    );
                }
                Distribution::Normal { mean, deviation } => {
                    generate(seed, position, block, normals, |unit| mean + deviation * unit);
                }
            });
        }
    });
}

/// Writes the numbers from `position` on. Whole blocks of the generator are made once.
fn generate<F: Float>(
    seed: u64,
    position: u64,
    results: &mut [MaybeUninit<F>],
    numbers: impl Fn([u32; 4]) -> [f32; 4],
    finish: impl Fn(f32) -> f32,
) {
    let mut position = position;
    let mut left = results;
    while !left.is_empty() {
        let values = numbers(block(seed, position / BLOCK_WORDS));
        let values = &values[(position % BLOCK_WORDS) as usize..];
        let (now, later) = left.split_at_mut(values.len().min(left.len()));
        for (result, &value) in now.iter_mut().zip(values) {
            result.write(F::from_f32(finish(value)));
        }
        position = position.wrapping_add(now.len() as u64);
        left = later;
    }
}

/// The point of `low ..= high` at a fraction of the way, which is below 1.
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

    use super::super::testing::{FLOATS, Tensor, assert_same_bits_in_any_order, run};
    use super::*;

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

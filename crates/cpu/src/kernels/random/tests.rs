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
        let transposed = Layout::contiguous(dtype, &[150, 4]).unwrap().transpose(0, 1).unwrap();
        let dst = Tensor::uninit(transposed);
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

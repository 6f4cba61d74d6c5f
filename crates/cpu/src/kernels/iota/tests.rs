use millstream_core::{Command, Layout};

use super::*;
use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, run};

#[test]
fn numbers_follow_the_axis_whatever_the_layout() {
    let dst = Tensor::output(DType::I64, &[2, 3]);
    run(Command::iota(dst.operand(), 1, 10i64, -4i64));
    assert_eq!(dst.values::<i64>(), [10, 6, 2, 10, 6, 2]);
    let transposed = Layout::contiguous(DType::F32, &[3, 2]).unwrap().transpose(0, 1).unwrap();
    let dst = Tensor::uninit(transposed);
    run(Command::iota(dst.operand(), 0, 0.5f32, 2.0f32));
    assert_eq!(dst.values::<f32>(), [0.5, 0.5, 0.5, 2.5, 2.5, 2.5]);
}

#[test]
fn integers_wrap_and_floats_round_twice() {
    let dst = Tensor::output(DType::U8, &[300]);
    run(Command::iota(dst.operand(), 0, 250i64, 1i64));
    assert_eq!(dst.values::<u8>()[5..8], [255, 0, 1]);
    let dst = Tensor::output(DType::F32, &[12]);
    run(Command::iota(dst.operand(), 0, 1.0f32, 0.1f32));
    let expected: Vec<f32> = (0..12).map(|i| 1.0 + i as f32 * 0.1).collect();
    assert_eq!(dst.values::<f32>(), expected);
}

#[test]
fn long_rows_have_the_same_bits_in_any_order() {
    let dst = Tensor::output(DType::F32, &[3, 50_001]);
    let command = Command::iota(dst.operand(), 1, 1.0f32, 0.3f32).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
}

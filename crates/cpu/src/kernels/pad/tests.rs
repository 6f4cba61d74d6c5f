use millstream_core::{Command, DType, MAX_RANK, PadMode, PadParams, Scalar};

use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, run};

fn params(mode: PadMode, widths: &[(i64, i64)]) -> PadParams {
    let (mut before, mut after) = ([0; MAX_RANK], [0; MAX_RANK]);
    for (axis, &width) in widths.iter().enumerate() {
        (before[axis], after[axis]) = width;
    }
    PadParams { mode, before, after }
}

fn padded(values: &[i32], mode: PadMode, before: i64, after: i64) -> Vec<i32> {
    let src = Tensor::new(&[values.len()], values);
    let size = (values.len() as i64 + before + after) as usize;
    let dst = Tensor::output(DType::I32, &[size]);
    run(Command::pad(dst.operand(), src.operand(), params(mode, &[(before, after)])));
    dst.values()
}

const NINE: PadMode = PadMode::Constant(Scalar::Int(9));

#[test]
fn each_mode_continues_in_its_own_way() {
    assert_eq!(padded(&[1, 2, 3], NINE, 2, 1), [9, 9, 1, 2, 3, 9]);
    assert_eq!(padded(&[1, 2, 3], PadMode::Edge, 2, 1), [1, 1, 1, 2, 3, 3]);
    assert_eq!(padded(&[1, 2, 3], PadMode::Reflect, 2, 2), [3, 2, 1, 2, 3, 2, 1]);
    assert_eq!(padded(&[1, 2, 3], PadMode::Wrap, 2, 1), [2, 3, 1, 2, 3, 1]);
}

#[test]
fn wide_padding_goes_on_from_the_other_end() {
    assert_eq!(padded(&[1, 2, 3], PadMode::Reflect, 0, 6), [1, 2, 3, 2, 1, 2, 3, 2, 1]);
    assert_eq!(padded(&[1, 2], PadMode::Wrap, 3, 3), [2, 1, 2, 1, 2, 1, 2, 1]);
    assert_eq!(padded(&[7], PadMode::Reflect, 2, 1), [7, 7, 7, 7]);
}

#[test]
fn negative_widths_crop_before_anything_is_added() {
    assert_eq!(padded(&[1, 2, 3, 4], NINE, -1, -1), [2, 3]);
    assert_eq!(padded(&[1, 2, 3, 4], PadMode::Edge, -2, 2), [3, 4, 4, 4]);
    assert_eq!(padded(&[1, 2, 3, 4], PadMode::Reflect, 2, -2), [1, 2, 1, 2]);
    assert_eq!(padded(&[1, 2, 3, 4], PadMode::Wrap, -1, 3), [2, 3, 4, 2, 3, 4]);
    assert_eq!(padded(&[1, 2], NINE, -2, 1), [9]);
}

#[test]
fn several_axes_are_padded_at_once() {
    let src = Tensor::new(&[2, 2, 1], &[1i64, 2, 3, 4]);
    let dst = Tensor::output(DType::I64, &[4, 3, 1]);
    let widths = [(1, 1), (1, 0), (0, 0)];
    run(Command::pad(dst.operand(), src.operand(), params(PadMode::Reflect, &widths)));
    assert_eq!(dst.values::<i64>(), [4, 3, 4, 2, 1, 2, 4, 3, 4, 2, 1, 2]);
    run(Command::pad(dst.operand(), src.operand(), params(NINE, &widths)));
    assert_eq!(dst.values::<i64>(), [9, 9, 9, 9, 1, 2, 9, 3, 4, 9, 9, 9]);
}

#[test]
fn an_empty_input_may_be_padded_with_a_constant() {
    assert_eq!(padded(&[], NINE, 1, 1), [9, 9]);
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let values: Vec<i32> = (0..90 * 401).collect();
    let src = Tensor::new(&[90, 401], &values);
    let dst = Tensor::output(DType::I32, &[95, 411]);
    let command =
        Command::pad(dst.operand(), src.operand(), params(PadMode::Reflect, &[(2, 3), (7, 3)]));
    assert_same_bits_in_any_order(&command.unwrap(), &dst);
}

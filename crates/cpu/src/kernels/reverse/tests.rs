use millstream_core::Command;

use super::*;
use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, fault, run};

#[test]
fn each_axis_turns_around() {
    let src = Tensor::new(&[2, 3], &[1i32, 2, 3, 4, 5, 6]);
    for (axes, expected) in [
        (&[][..], [1, 2, 3, 4, 5, 6]),
        (&[0], [4, 5, 6, 1, 2, 3]),
        (&[1], [3, 2, 1, 6, 5, 4]),
        (&[0, 1], [6, 5, 4, 3, 2, 1]),
    ] {
        let dst = Tensor::output(DType::I32, &[2, 3]);
        run(Command::reverse(dst.operand(), src.operand(), Axes::new(axes).unwrap()));
        assert_eq!(dst.values::<i32>(), expected, "{axes:?}");
    }
}

#[test]
fn lengths_say_how_many_turn_around_on_either_side_of_the_batch() {
    let src = Tensor::new(&[3, 2], &[1i32, 2, 3, 4, 5, 6]);
    let dst = Tensor::output(DType::I32, &[3, 2]);
    let lengths = Tensor::new(&[2], &[3i64, 2]);
    run(Command::reverse_sequence(dst.operand(), src.operand(), lengths.operand(), 0, 1));
    assert_eq!(dst.values::<i32>(), [5, 4, 3, 2, 1, 6]);
    let lengths = Tensor::new(&[3], &[0i32, 1, 2]);
    run(Command::reverse_sequence(dst.operand(), src.operand(), lengths.operand(), 1, 0));
    assert_eq!(dst.values::<i32>(), [1, 2, 3, 4, 6, 5]);
}

#[test]
fn a_length_beyond_its_axis_is_a_fault() {
    let (src, dst) = (Tensor::new(&[3, 2], &[0i32; 6]), Tensor::output(DType::I32, &[3, 2]));
    for bad in [-1, 4] {
        let lengths = Tensor::new(&[2], &[3i64, bad]);
        let command =
            Command::reverse_sequence(dst.operand(), src.operand(), lengths.operand(), 0, 1);
        assert!(fault(command).contains(&format!("length {bad}")));
    }
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let values: Vec<i32> = (0..70_001 * 2).collect();
    let src = Tensor::new(&[2, 70_001], &values);
    let dst = Tensor::output(DType::I32, &[2, 70_001]);
    let axes = Axes::new(&[1]).unwrap();
    let command = Command::reverse(dst.operand(), src.operand(), axes).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
    assert_eq!(dst.values::<i32>()[..2], [70_000, 69_999]);
}

use millstream_core::{BinaryOp, Chain, ChainStep, ChainTerm, DType, Scalar, UnaryOp};

use super::Opcode::*;
use super::*;

const X: ChainTerm = ChainTerm::Input(0);
const Y: ChainTerm = ChainTerm::Input(1);

fn step(location: u8) -> ChainTerm {
    ChainTerm::Step(location)
}

fn program(inputs: &[DType], steps: &[ChainStep]) -> Option<(Vec<(Opcode, Location)>, usize)> {
    let program = Program::new(&Chain::new(inputs, steps).unwrap())?;
    let list = program.instructions().iter().map(|one| (one.opcode, one.location)).collect();
    Some((list, program.slots))
}

#[test]
fn a_row_of_steps_stays_in_the_accumulator() {
    let steps = [
        ChainStep::binary(BinaryOp::Mul, X, Y),
        ChainStep::unary(UnaryOp::Relu, step(0)),
        ChainStep::clip(Some(Scalar::Int(0)), None, step(1)),
        ChainStep::binary(BinaryOp::Sub, Y, step(2)),
    ];
    let (list, slots) = program(&[DType::F32; 2], &steps).unwrap();
    let (accumulator, y) = (Location::Accumulator, Location::Input(1));
    assert_eq!(
        list,
        [(Load, Location::Input(0)), (Mul, y), (Relu, accumulator), (Clip, accumulator), (Sub, y)]
    );
    assert_eq!(slots, 0);
}

#[test]
fn results_that_are_read_later_are_kept_and_then_stored() {
    let add = |a, b| ChainStep::binary(BinaryOp::Add, a, b);
    let steps =
        [add(X, X), add(step(0), X), add(step(1), X), add(step(2), step(1)), add(step(3), step(0))];
    let (list, slots) = program(&[DType::F32], &steps).unwrap();
    let (accumulator, x, slot) = (Location::Accumulator, Location::Input(0), Location::Slot(0));
    let expected = [
        (Load, x),
        (Add, accumulator),
        (Keep, accumulator),
        (Add, x),
        (Store, slot),
        (Add, x),
        (Add, slot),
        (Add, Location::Kept),
    ];
    assert_eq!((&list[..], slots), (&expected[..], 1));
}

#[test]
fn other_types_and_functions_are_left_to_tiles() {
    let one = |dtype, step| program(&[dtype], &[step]);
    assert!(one(DType::F32, ChainStep::unary(UnaryOp::Relu, X)).is_some());
    assert!(one(DType::F64, ChainStep::unary(UnaryOp::Relu, X)).is_none());
    assert!(one(DType::F32, ChainStep::unary(UnaryOp::Exp, X)).is_none());
    assert!(one(DType::F32, ChainStep::cast(DType::F32, X)).is_none());
    assert!(one(DType::F32, ChainStep::binary(BinaryOp::Less, X, X)).is_none());
    // Two masks at once.
    let less = |a, b| ChainStep::binary(BinaryOp::Less, a, b);
    let steps = [
        less(X, Y),
        less(Y, X),
        ChainStep::where_(step(0), X, Y),
        ChainStep::where_(step(1), step(2), Y),
    ];
    assert!(program(&[DType::F32; 2], &steps).is_none());
    // A result that is no number.
    let steps = [
        less(X, Y),
        less(Y, X),
        ChainStep::binary(BinaryOp::And, step(0), step(1)),
        ChainStep::where_(step(2), X, Y),
    ];
    assert!(program(&[DType::F32; 2], &steps).is_none());
}

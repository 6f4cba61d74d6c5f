use millstream_core::{BinaryOp, ChainStep, DType, UnaryOp};

use super::*;

fn step(place: u8) -> ChainTerm {
    ChainTerm::Step(place)
}

#[test]
fn a_row_of_steps_needs_two_registers() {
    let x = ChainTerm::Input(0);
    let relu = |at: u8| ChainStep::unary(UnaryOp::Relu, if at == 0 { x } else { step(at - 1) });
    let steps: Vec<_> = (0..16).map(relu).collect();
    let allocation = RegisterAllocation::new(&Chain::new(&[DType::F32], &steps).unwrap());
    assert_eq!((allocation.registers, allocation.tile), (2, 1024));
    assert_eq!(allocation.targets[..4], [0, 1, 0, 1]);
    assert_eq!(allocation.sources[1][0], Location::Register(0));
}

#[test]
fn a_register_is_kept_as_long_as_its_result_is_read() {
    let x = ChainTerm::Input(0);
    let add = |a, b| ChainStep::binary(BinaryOp::Add, a, b);
    let steps =
        [add(x, x), add(x, step(0)), add(step(1), x), add(step(2), step(0)), add(step(3), x)];
    let allocation = RegisterAllocation::new(&Chain::new(&[DType::F64], &steps).unwrap());
    assert_eq!((allocation.registers, allocation.tile), (3, 512));
    assert_eq!(allocation.targets[..4], [0, 1, 2, 1]);
    assert_eq!(
        allocation.sources[3],
        [Location::Register(2), Location::Register(0), Location::Register(0)]
    );
}

//! Commands whose buffers are not those that they were checked against.

use super::*;

const SMALL: RawBuffer = RawBuffer { address: 0x9000, bytes: 8 };

#[test]
fn a_command_bound_to_other_buffers_is_verified_again() {
    let command = Command::fill(f32s(1, &[4]), 1f32).unwrap();
    assert!(command.verify().is_ok());
    assert!(command.clone().bind(|&buffer| buffer).verify().is_ok());
    rejected(command.clone().bind(|_| SMALL).verify(), "buffer of 8 bytes");
    rejected(command.try_bind(|_| Ok(SMALL)).unwrap().verify(), "buffer of 8 bytes");
}

#[test]
fn operands_bound_to_one_buffer_keep_the_rule_of_their_operation() {
    let one = RawBuffer { address: 0x9000, bytes: 1 << 20 };
    let verify = |command: Result<BoundCommand>| command.unwrap().bind(|_| one).verify();
    let (a, b, c) = (f32s(1, &[2, 2]), f32s(2, &[2, 2]), f32s(3, &[2, 2]));
    assert!(verify(Command::binary(BinaryOp::Add, a, b, c)).is_ok());
    let product = Command::matmul(a, b, c, None, None, 1.0, Activation::None);
    rejected(verify(product), "shares memory");
    // In place for what is scattered into alone.
    let indices = operand(3, DType::I64, &[2, 2]);
    let scatter =
        |updates| Command::scatter_elements(a, b, indices, updates, 0, ScatterReduction::Replace);
    let updates = f32s(4, &[2, 2]);
    let apart = |buffer: &RawBuffer| if buffer.address <= 2 << 20 { one } else { *buffer };
    assert!(scatter(updates).unwrap().bind(apart).verify().is_ok());
    let shared = |buffer: &RawBuffer| if buffer.address == 3 << 20 { *buffer } else { one };
    rejected(scatter(updates).unwrap().bind(shared).verify(), "shares memory");
    // Weights are read again for every row; with one row they have the layout of the output.
    let norm = |rows: usize| {
        let shape = &[rows, 4][..];
        Command::layer_norm(f32s(1, shape), f32s(2, shape), Some(f32s(3, &[4])), None, 1, 0.1)
    };
    assert!(norm(2).unwrap().bind(apart).verify().is_ok());
    rejected(verify(norm(2)), "shares memory");
    let row = Command::layer_norm(f32s(1, &[4]), f32s(2, &[4]), Some(f32s(3, &[4])), None, 1, 0.1);
    assert!(verify(row).is_ok());
}

#[test]
fn a_command_that_was_recorded_is_not_verified_again() {
    let mut command = Command::fill(f32s(1, &[4]), 1f32).unwrap();
    let mut list = Vec::new();
    command.bind_into(&mut list, |&buffer| buffer);
    assert!(list[0].verify().is_ok() && matches!(list[0].op(), Op::Fill { .. }));
    rejected(command.verify(), "recorded already");
    rejected(command.bind(|&buffer| buffer).verify(), "recorded already");
}

#[test]
fn a_layout_that_memory_cannot_have_fits_no_buffer() {
    // The second element lies 512 bytes behind the first once the product has wrapped around.
    let bytes = Layout::strided(DType::U8, &[2], &[(1 << 61) + 64], 0).unwrap();
    let repeated = Layout::strided(DType::U8, &[1 << 61], &[0], 0).unwrap();
    for layout in [bytes, repeated] {
        let wrapped = layout.with_dtype(DType::F64);
        assert_eq!(wrapped.extent_bytes(), usize::MAX);
        for bytes in [256, usize::MAX] {
            let operand = Operand::new(RawBuffer { address: 0, bytes }, wrapped);
            rejected(Command::fill(operand, 1f64), "beyond what memory can have");
            assert!(Command::download(HostBytes::zeroed(16), operand).is_err());
        }
    }
}

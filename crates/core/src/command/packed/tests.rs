use crate::{Activation, Command, DType, Layout, Operand, RawBuffer};

fn operand(dtype: DType, shape: &[usize], address: usize) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(dtype, shape).unwrap();
    Operand::new(RawBuffer { address, bytes: layout.dense_bytes() }, layout)
}

fn product(a: Operand<RawBuffer>, packed: Operand<RawBuffer>) -> crate::Result<Command<RawBuffer>> {
    let dst = operand(DType::F32, &[2, 3, 5], 0x1000);
    Command::matmul_packed(dst, a, packed, None, None, 1.0, Activation::None)
}

#[test]
fn weights_must_be_a_matrix_and_packed_ones_bytes() {
    let bytes = operand(DType::U8, &[80], 0x1000);
    let weights = |dtype, shape: &[usize]| operand(dtype, shape, 0x2000);
    assert!(Command::pack_weights(bytes, weights(DType::F16, &[4, 5])).is_ok());
    assert!(Command::pack_weights(bytes, weights(DType::I32, &[4, 5])).is_err());
    assert!(Command::pack_weights(bytes, weights(DType::F32, &[1, 4, 5])).is_err());
    let numbers = operand(DType::F32, &[20], 0x1000);
    assert!(Command::pack_weights(numbers, weights(DType::F32, &[4, 5])).is_err());
}

#[test]
fn sizes_of_a_product_with_packed_weights_are_checked() {
    let packed = operand(DType::U8, &[80], 0x2000);
    let a = |shape: &[usize]| operand(DType::F32, shape, 0x3000);
    assert!(product(a(&[2, 3, 4]), packed).is_ok());
    assert!(product(a(&[3, 4]), packed).is_ok());
    assert!(product(a(&[1, 4]), packed).is_err());
    assert!(product(a(&[4]), packed).is_err());
    assert!(product(a(&[3, 3, 4]), packed).is_err());
    assert!(product(a(&[3, 4]), operand(DType::F32, &[20], 0x2000)).is_err());
}

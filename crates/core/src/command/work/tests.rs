use super::super::tests::{f32s, operand};
use super::super::*;
use crate::{DType, Layout};

fn work(command: Result<BoundCommand>) -> u64 {
    command.unwrap().work()
}

#[test]
fn elements_count_as_often_as_they_are_read_or_written() {
    assert_eq!(work(Command::fill(f32s(1, &[3, 5]), 1f32)), 15);
    assert_eq!(work(Command::unary(UnaryOp::Exp, f32s(1, &[3, 5]), f32s(2, &[5]))), 30);
    let add = Command::binary(BinaryOp::Add, f32s(1, &[3, 5]), f32s(2, &[1]), f32s(3, &[3, 1]));
    assert_eq!(work(add), 45);
    let sum = Command::reduce(ReduceOp::Sum, f32s(1, &[1, 5]), f32s(2, &[3, 5]), Axes::all(1));
    assert_eq!(work(sum), 20);
    assert_eq!(work(Command::upload(f32s(1, &[4]), HostBytes::zeroed(16))), 8);
    assert_eq!(work(Command::download(HostBytes::zeroed(16), f32s(1, &[4]))), 8);
    assert_eq!(work(Command::fill(f32s(1, &[0, 5]), 1f32)), 0);
    assert_eq!(work(Command::timestamp(operand(1, DType::I64, &[]))), 1);
}

#[test]
fn a_table_counts_with_what_is_read_of_it() {
    let table = f32s(2, &[1000, 8]);
    assert_eq!(
        work(Command::embedding(f32s(1, &[3, 8]), table, operand(3, DType::I64, &[3]))),
        2 * 24 + 3
    );
}

#[test]
fn sixteen_multiply_adds_count_as_one() {
    let (a, b) = (f32s(2, &[32, 64]), f32s(3, &[64, 16]));
    let product = Command::matmul(f32s(1, &[32, 16]), a, b, None, None, 1.0, Activation::None);
    assert_eq!(work(product), (512 + 2048 + 1024) + 32 * 16 * 64 / 16);
    let packed = operand(3, DType::U8, &[64 * 16 * 4]);
    let dst = f32s(1, &[32, 16]);
    let packed = Command::matmul_packed(dst, a, packed, None, None, 1.0, Activation::None);
    assert_eq!(work(packed), (512 + 2048 + 1024) + 32 * 16 * 64 / 16);

    let (dst, src, weight) = (f32s(1, &[1, 4, 8]), f32s(2, &[1, 4, 10]), f32s(3, &[4, 4, 3]));
    let params = ConvParams::new(1);
    let conv = Command::conv(dst, src, weight, None, None, params, 1.0, Activation::None);
    assert_eq!(work(conv), (32 + 40 + 48) + 32 * 12 / 16);

    let heads = |id, length| f32s(id, &[1, 2, length, 8]);
    let attention =
        Command::attention(heads(1, 4), heads(2, 4), heads(3, 6), heads(4, 6), None, 1.0, false);
    assert_eq!(work(attention), (64 + 64 + 96 + 96) + 48 + 48 * 16 / 16);
}

#[test]
fn transforms_take_a_logarithm_more_than_they_have_elements() {
    let dft = Command::dft(f32s(1, &[3, 8, 2]), f32s(2, &[3, 8, 1]), 1, false, false);
    assert_eq!(work(dft), 3 * 2 * 8 * 4);
}

#[test]
fn more_work_than_can_be_counted_is_the_most() {
    let repeated = |shape: &[usize]| {
        let layout = Layout::scalar(DType::F32).broadcast_to(shape).unwrap();
        Operand::new(RawBuffer { address: 0x1000, bytes: 4 }, layout)
    };
    let (a, b) = (repeated(&[1 << 20, 1 << 40]), repeated(&[1 << 40, 1 << 20]));
    let everything = RawBuffer { address: 0x2000, bytes: usize::MAX };
    let dst = Layout::contiguous(DType::F32, &[1 << 20, 1 << 20]).unwrap();
    let dst = Operand::new(everything, dst);
    let product = Command::matmul(dst, a, b, None, None, 1.0, Activation::None);
    assert_eq!(work(product), u64::MAX);
}

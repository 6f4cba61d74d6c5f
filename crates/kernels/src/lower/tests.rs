mod index;

use millstream_core::{Command, DType, Layout, Operand, RawBuffer, UnaryOp};

use super::*;

const LIMITS: Limits = Limits {
    max_threads: 256,
    shared_bytes: 32 << 10,
    simd_width: 32,
    f64: false,
    matrices: false,
    tensor_cores: false,
    parallel_groups: 8,
};

fn operand(address: usize, dtype: DType, shape: &[usize]) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(dtype, shape).unwrap();
    Operand::new(RawBuffer { address, bytes: layout.dense_bytes() }, layout)
}

#[test]
fn f64_is_moved_everywhere_and_computed_where_there_is_f64() {
    let (dst, src) = (operand(4096, DType::F64, &[9]), operand(8192, DType::F64, &[9]));
    let exp = Command::unary(UnaryOp::Exp, dst, src).unwrap();
    assert!(matches!(lower(&exp, 0, &LIMITS), Err(Error::Unsupported { .. })));
    assert_eq!(lower(&exp, 0, &Limits { f64: true, ..LIMITS }).unwrap().launches.len(), 1);
    let moved = Command::copy(dst, src).unwrap();
    assert_eq!(lower(&moved, 0, &LIMITS).unwrap().launches.len(), 1);
    let converted = Command::copy(operand(4096, DType::F32, &[9]), src).unwrap();
    assert!(matches!(lower(&converted, 0, &LIMITS), Err(Error::Unsupported { .. })));
}

#[test]
fn an_empty_output_gives_no_launches() {
    let (dst, src) = (operand(4096, DType::F32, &[0, 3]), operand(8192, DType::F32, &[0, 3]));
    let exp = Command::unary(UnaryOp::Exp, dst, src).unwrap();
    assert!(lower(&exp, 0, &LIMITS).unwrap().launches.is_empty());
    let softmax = Command::softmax(dst, src, 1, false).unwrap();
    assert!(lower(&softmax, 0, &LIMITS).unwrap().launches.is_empty());
}

#[test]
fn transfers_are_left_to_the_backend() {
    let clock = Command::timestamp(operand(4096, DType::I64, &[])).unwrap();
    assert!(matches!(lower(&clock, 0, &LIMITS), Err(Error::Unsupported { .. })));
    assert!(!supports(OpKind::Upload) && supports(OpKind::Softmax));
}

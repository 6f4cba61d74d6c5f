use millstream_core::{DType, Layout};

use super::*;

fn operand(address: usize, layout: Layout) -> Operand<RawBuffer> {
    Operand::new(RawBuffer { address, bytes: layout.extent_bytes() }, layout)
}

const LIMITS: Limits = Limits {
    max_threads: 256,
    shared_bytes: 32 << 10,
    simd_width: 32,
    f64: true,
    matrices: false,
    tensor_cores: false,
    parallel_groups: 4,
};

#[test]
fn dense_operands_become_one_axis_of_vectors() {
    let dense = Layout::contiguous(DType::F32, &[3, 1, 5, 7]).unwrap();
    let (dst, src) = (operand(4096, dense), operand(8192, dense));
    let grid = Elementwise::new([&dst, &src], &LIMITS).unwrap();
    assert_eq!((grid.rank, grid.vector, grid.steps), (1, 4, 0b11));
    assert_eq!((grid.walk.count, grid.tail), (26, 1));
}

#[test]
fn operands_permuted_alike_are_dense_too() {
    let transposed = Layout::contiguous(DType::F16, &[6, 8]).unwrap().permute(&[1, 0]).unwrap();
    let (dst, src) = (operand(4096, transposed), operand(8192, transposed));
    let grid = Elementwise::new([&dst, &src], &LIMITS).unwrap();
    assert_eq!((grid.rank, grid.vector, grid.walk.count), (1, 8, 6));
}

#[test]
fn a_row_for_all_rows_keeps_its_vectors() {
    let dense = Layout::contiguous(DType::F32, &[5, 8]).unwrap();
    let row = Layout::contiguous(DType::F32, &[8]).unwrap().broadcast_to(&[5, 8]).unwrap();
    let one = Layout::scalar(DType::F32).broadcast_to(&[5, 8]).unwrap();
    let (dst, row, one) = (operand(4096, dense), operand(8192, row), operand(64, one));
    let grid = Elementwise::new([&dst, &row, &one], &LIMITS).unwrap();
    assert_eq!((grid.rank, grid.vector, grid.steps), (2, 4, 0b011));
    assert_eq!(grid.walk.shape[..2], [2, 5]);
    assert_eq!(grid.walk.stride[0][..2], [4, 8]);
    assert_eq!(grid.walk.stride[1][..2], [4, 0]);
}

#[test]
fn an_odd_address_takes_elements_one_by_one() {
    let dense = Layout::contiguous(DType::F32, &[64]).unwrap();
    let (dst, src) = (operand(4096, dense), operand(8196, dense));
    let grid = Elementwise::new([&dst, &src], &LIMITS).unwrap();
    assert_eq!((grid.vector, grid.walk.count, grid.tail), (1, 64, 0));
}

#[test]
fn no_elements_need_no_plan() {
    let empty = operand(0, Layout::contiguous(DType::F32, &[3, 0]).unwrap());
    assert!(Elementwise::new([&empty], &LIMITS).is_none());
}

#[test]
fn large_operands_count_in_64_bits() {
    let large = operand(0, Layout::contiguous(DType::U8, &[1 << 31]).unwrap());
    let far = operand(0, Layout::strided(DType::F32, &[2], &[1 << 31], 0).unwrap());
    let small = operand(0, Layout::contiguous(DType::F64, &[1 << 20]).unwrap());
    assert!(is_wide([&large]) && is_wide([&far]) && !is_wide([&small]));
}

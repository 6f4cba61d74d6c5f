use millstream_core::{Activation, Command, Layout, Operand, RawBuffer};

use super::*;
use crate::Slot;

const LIMITS: Limits = Limits {
    max_threads: 1024,
    shared_bytes: 48 << 10,
    simd_width: 32,
    f64: true,
    matrices: false,
    tensor_cores: false,
    parallel_groups: 132,
};

fn operand(place: usize, dtype: DType, shape: &[usize]) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(dtype, shape).unwrap();
    Operand::new(RawBuffer { address: place << 32, bytes: layout.extent_bytes() }, layout)
}

fn product(dtype: DType, dst: &[usize], a: &[usize], b: &[usize]) -> Launch {
    let (dst, a, b) = (operand(1, dtype, dst), operand(2, dtype, a), operand(3, dtype, b));
    let command = Command::matmul(dst, a, b, None, None, 1.0, Activation::None).unwrap();
    crate::lower(&command, 0, &LIMITS).unwrap().launches[0].clone()
}

#[test]
fn large_products_have_large_tiles_and_small_ones_share_the_depth() {
    let large = product(DType::F32, &[1024, 1024], &[1024, 64], &[64, 1024]);
    assert_eq!((large.groups, large.threads), ([256, 1, 1], 256));
    let medium = product(DType::F32, &[512, 256], &[512, 64], &[64, 256]);
    assert_eq!((medium.groups, medium.threads), ([128, 1, 1], 256));
    let small = product(DType::F32, &[128, 256], &[128, 64], &[64, 256]);
    assert_eq!((small.groups, small.threads), ([64, 1, 1], 256));
    assert_ne!(small.key, medium.key);
    let double = product(DType::F64, &[128, 256], &[128, 64], &[64, 256]);
    assert_eq!(double.threads, 128);
}

#[test]
fn a_batch_with_one_right_factor_is_one_product() {
    let joined = product(DType::F32, &[8, 20, 256], &[8, 20, 64], &[64, 256]);
    assert_eq!(joined.groups, [5 * 16, 1, 1]);
    let single = product(DType::F32, &[160, 1, 256], &[160, 1, 64], &[64, 256]);
    assert_eq!(single.groups, [5 * 16, 1, 1]);
    let apart = product(DType::F32, &[8, 20, 256], &[8, 20, 64], &[8, 64, 256]);
    assert_eq!(apart.groups, [16, 8, 1]);
}

#[test]
fn nothing_to_compute_gives_no_launches_and_no_depth_does() {
    let (dst, a, b) = (
        operand(1, DType::F32, &[0, 4]),
        operand(2, DType::F32, &[0, 3]),
        operand(3, DType::F32, &[3, 4]),
    );
    let command = Command::matmul(dst, a, b, None, None, 1.0, Activation::None).unwrap();
    assert!(crate::lower(&command, 0, &LIMITS).unwrap().launches.is_empty());
    let empty = product(DType::F32, &[30, 40], &[30, 0], &[0, 40]);
    assert_eq!(empty.slots[0], Slot::Address(1 << 32));
}

use millstream_core::{Activation, Command, DType, Layout, Operand, RawBuffer};

use super::*;
use crate::Slot;
use crate::lower::gemv::tests::LIMITS;

/// A device of ten cores with matrices.
const WITH: Limits =
    Limits { matrices: true, shared_bytes: 32 << 10, parallel_groups: 40, ..LIMITS };

fn operand(place: usize, layout: Layout) -> Operand<RawBuffer> {
    Operand::new(RawBuffer { address: place << 32, bytes: layout.extent_bytes() }, layout)
}

fn plain(dtype: DType, shape: &[usize]) -> Layout {
    Layout::contiguous(dtype, shape).unwrap()
}

fn launch_of(dtype: DType, [m, n, k]: [usize; 3], b: Layout, limits: &Limits) -> Launch {
    let dst = operand(1, plain(dtype, &[m, n]));
    let a = operand(2, plain(dtype, &[m, k]));
    let command =
        Command::matmul(dst, a, operand(3, b), None, None, 1.0, Activation::None).unwrap();
    crate::lower(&command, 0, limits).unwrap().launches[0].clone()
}

fn square(dtype: DType, sizes: [usize; 3], limits: &Limits) -> Launch {
    launch_of(dtype, sizes, plain(dtype, &[sizes[2], sizes[1]]), limits)
}

fn constant(launch: &Launch, name: &str) -> i32 {
    launch.key.constants().find(|constant| constant.0 == name).unwrap().1
}

#[test]
fn products_of_floats_use_matrices_where_the_device_has_them() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let launch = square(dtype, [300, 300, 64], &WITH);
        assert_eq!(launch.key.program(), Program::MatmulMatrices, "{dtype:?}");
        assert_eq!(launch.slots[0], Slot::Address(1 << 32));
        let without = square(dtype, [300, 300, 64], &Limits { matrices: false, ..WITH });
        assert_eq!(without.key.program(), Program::Matmul, "{dtype:?}");
    }
    let whole = square(DType::I32, [300, 300, 64], &WITH);
    assert_eq!(whole.key.program(), Program::Matmul);
    // The rows of seven would leave most of a matrix empty.
    assert_eq!(square(DType::F32, [7, 300, 64], &WITH).key.program(), Program::Matmul);
    let few_threads = Limits { max_threads: 64, ..WITH };
    assert_eq!(square(DType::F32, [300, 300, 64], &few_threads).key.program(), Program::Matmul);
}

#[test]
fn large_products_have_large_tiles_and_small_ones_share_k() {
    let tile = |launch: &Launch| (constant(launch, "TILE_M"), launch.threads, launch.groups[0]);
    assert_eq!(tile(&square(DType::F32, [320, 256, 1024], &WITH)), (64, 128, 20));
    assert_eq!(tile(&square(DType::F32, [256, 256, 1024], &WITH)), (32, 128, 64));
    assert_eq!(tile(&square(DType::F32, [96, 128, 1024], &WITH)), (32, 256, 12));
    assert_eq!(tile(&square(DType::F32, [64, 64, 1024], &WITH)), (32, 512, 4));
    // A short k is not worth the sum.
    assert_eq!(tile(&square(DType::F32, [64, 64, 511], &WITH)), (32, 256, 4));
    assert_eq!(tile(&square(DType::F32, [64, 64, 255], &WITH)), (32, 128, 4));
    let few_threads = Limits { max_threads: 256, ..WITH };
    assert_eq!(tile(&square(DType::F32, [64, 64, 1024], &few_threads)), (32, 256, 4));
}

#[test]
fn operands_are_read_along_the_axis_that_memory_has() {
    let modes = |launch: &Launch| [constant(launch, "A_MODE"), constant(launch, "B_MODE")];
    let limits = Limits { parallel_groups: 4, ..WITH };
    assert_eq!(modes(&square(DType::F32, [300, 300, 64], &limits)), [3, 2]);
    let transposed = plain(DType::F32, &[300, 64]).transpose(0, 1).unwrap();
    let launch = launch_of(DType::F32, [300, 300, 64], transposed, &limits);
    assert_eq!(modes(&launch), [3, 3]);
    // A row of 63 numbers begins anywhere.
    assert_eq!(modes(&square(DType::F32, [300, 300, 63], &limits)), [1, 2]);
    assert_eq!(modes(&square(DType::F16, [300, 300, 60], &limits)), [1, 0]);
}

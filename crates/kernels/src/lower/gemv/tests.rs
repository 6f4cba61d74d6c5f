use millstream_core::{Activation, Command, Layout, Operand, RawBuffer};

use super::*;

pub(in crate::lower) const LIMITS: Limits = Limits {
    max_threads: 1024,
    shared_bytes: 48 << 10,
    simd_width: 32,
    f64: true,
    matrices: false,
    tensor_cores: false,
    parallel_groups: 132,
};

pub(in crate::lower) fn place(address: usize, layout: Layout) -> Operand<RawBuffer> {
    Operand::new(RawBuffer { address: address << 32, bytes: layout.extent_bytes() }, layout)
}

pub(in crate::lower) fn dense(dtype: DType, shape: &[usize]) -> Layout {
    Layout::contiguous(dtype, shape).unwrap()
}

/// A product of `rows` rows with a weight of shape `[outputs, k]`, as linear layers have it.
pub(in crate::lower) fn linear(
    dtype: DType,
    rows: usize,
    outputs: usize,
    k: usize,
) -> BoundCommand {
    let weight = dense(dtype, &[outputs, k]).transpose(0, 1).unwrap();
    let bias = dense(dtype, &[outputs]).broadcast_to(&[rows, outputs]).unwrap();
    Command::matmul(
        place(1, dense(dtype, &[rows, outputs])),
        place(2, dense(dtype, &[rows, k])),
        place(3, weight),
        Some(place(4, bias)),
        None,
        1.0,
        Activation::Relu,
    )
    .unwrap()
}

pub(in crate::lower) fn constant(launch: &Launch, name: &str) -> i32 {
    launch.key.constants().find(|constant| constant.0 == name).unwrap().1
}

#[test]
fn a_layer_at_batch_1_is_one_launch_with_a_simd_group_per_output() {
    let lowered = lower_gemv(&linear(DType::F32, 1, 1024, 512), false, &LIMITS).unwrap();
    assert_eq!((lowered.launches.len(), lowered.workspace), (1, 0));
    let launch = &lowered.launches[0];
    assert_eq!(
        (launch.key.program(), launch.groups, launch.threads),
        (Program::Gemv, [256, 1, 1], 128)
    );
    assert_eq!((constant(launch, "VECTOR"), constant(launch, "LANES")), (4, 32));
    assert_eq!(constant(launch, "ROWS"), 1);
    let half = lower_gemv(&linear(DType::BF16, 3, 64, 512), false, &LIMITS).unwrap();
    assert_eq!(
        (constant(&half.launches[0], "VECTOR"), constant(&half.launches[0], "ROWS")),
        (8, 4)
    );
}

#[test]
fn short_sums_share_a_simd_group() {
    let lowered = lower_gemv(&linear(DType::F32, 1, 1000, 64), false, &LIMITS).unwrap();
    assert_eq!(constant(&lowered.launches[0], "LANES"), 8);
    assert_eq!(lowered.launches[0].groups, [63, 1, 1]);
}

#[test]
fn more_rows_are_left_to_others() {
    assert!(lower_gemv(&linear(DType::F32, 5, 1024, 512), false, &LIMITS).is_none());
    let lowered = crate::lower(&linear(DType::F32, 5, 1024, 512), 0, &LIMITS).unwrap();
    assert_eq!(lowered.launches[0].key.program(), Program::MatmulSplitK);
}

#[test]
fn weights_that_lie_the_other_way_go_by_columns() {
    let command = Command::matmul(
        place(1, dense(DType::F16, &[2, 256])),
        place(2, dense(DType::F16, &[2, 512])),
        place(3, dense(DType::F16, &[512, 256])),
        None,
        None,
        1.0,
        Activation::None,
    )
    .unwrap();
    let lowered = lower_gemv(&command, false, &LIMITS).unwrap();
    assert_eq!(lowered.launches[0].key.program(), Program::GemvColumns);
    assert_eq!((lowered.launches[0].groups, lowered.launches[0].threads), ([16, 1, 1], 256));
}

#[test]
fn few_columns_are_few_rows_of_the_turned_product() {
    let command = Command::matmul(
        place(1, dense(DType::F32, &[256, 1])),
        place(2, dense(DType::F32, &[256, 512])),
        place(3, dense(DType::F32, &[512, 1])),
        None,
        None,
        1.0,
        Activation::None,
    )
    .unwrap();
    let launch = &lower_gemv(&command, false, &LIMITS).unwrap().launches[0];
    assert_eq!((launch.key.program(), launch.groups), (Program::Gemv, [64, 1, 1]));
    assert_eq!(constant(launch, "VECTOR"), 4);
}

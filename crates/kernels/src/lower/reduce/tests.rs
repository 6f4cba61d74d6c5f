use millstream_core::{Command, DType, Layout};

use super::*;

const LIMITS: Limits = Limits {
    max_threads: 256,
    shared_bytes: 32 << 10,
    simd_width: 32,
    f64: true,
    matrices: false,
    tensor_cores: false,
    parallel_groups: 64,
};

fn sum(shape: &[usize], axes: &[usize]) -> Lowered {
    let kept: Vec<usize> =
        (0..shape.len()).map(|axis| if axes.contains(&axis) { 1 } else { shape[axis] }).collect();
    let operand = |address: usize, shape: &[usize]| {
        let layout = Layout::contiguous(DType::F32, shape).unwrap();
        Operand::new(RawBuffer { address, bytes: layout.dense_bytes() }, layout)
    };
    let axes = AxisSet::new(axes).unwrap();
    let (dst, src) = (operand(1 << 20, &kept), operand(1 << 30, shape));
    let command = Command::reduce(ReduceOp::Sum, dst, src, axes).unwrap();
    lower(&command, ReduceOp::Sum, axes, &LIMITS)
}

fn constant(launch: &Launch, name: &str) -> i32 {
    launch.key.constants().find(|constant| constant.0 == name).unwrap().1
}

#[test]
fn many_rows_take_one_launch() {
    let lowered = sum(&[4096, 768], &[1]);
    assert_eq!((lowered.launches.len(), lowered.workspace), (1, 0));
    assert_eq!(constant(&lowered.launches[0], "MODE"), Worker::Group as i32);
    assert_eq!(constant(&lowered.launches[0], "VECTOR"), 4);
}

#[test]
fn one_long_row_is_split_among_groups() {
    let lowered = sum(&[1 << 20], &[0]);
    assert_eq!(lowered.launches.len(), 2);
    assert_eq!(lowered.launches[0].groups, [64, 1, 1]);
    assert_eq!(lowered.workspace, 64 * STATE_BYTES);
}

#[test]
fn columns_are_read_along_memory() {
    let lowered = sum(&[100_000, 64], &[0]);
    assert_eq!(lowered.launches.len(), 2);
    assert_eq!(constant(&lowered.launches[0], "MODE"), Worker::Thread as i32);
}

#[test]
fn nothing_to_write_is_nothing_to_do() {
    assert!(sum(&[0, 4], &[1]).launches.is_empty());
    assert_eq!(sum(&[4, 0], &[1]).launches.len(), 1);
}

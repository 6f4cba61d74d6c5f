use millstream_core::{Command, DType, Layout, Operand, RawBuffer};

use super::*;
use crate::Launch;

const GPU: Limits = Limits {
    max_threads: 1024,
    shared_bytes: 48 << 10,
    simd_width: 32,
    f64: true,
    tensor_cores: false,
    matrices: false,
    parallel_groups: 4 * 132,
};

fn launch(dtype: DType, shape: &[usize], axis: usize) -> Launch {
    let operand = |place: usize| {
        let layout = Layout::contiguous(dtype, shape).unwrap();
        Operand::new(RawBuffer { address: place << 32, bytes: layout.dense_bytes() }, layout)
    };
    let command = Command::softmax(operand(1), operand(2), axis, false).unwrap();
    crate::lower(&command, 0, &GPU).unwrap().launches[0].clone()
}

fn cut(launch: &Launch) -> [i32; 2] {
    ["COLUMNS", "THREADS"].map(|name| {
        launch.key.constants().find(|constant| constant.0 == name).map_or(0, |constant| constant.1)
    })
}

#[test]
fn few_long_rows_are_shared_by_many_threads() {
    let first = launch(DType::F32, &[2048, 512], 0);
    assert_eq!(first.key.program(), Program::SoftmaxColumns);
    assert_eq!((first.groups, first.threads, cut(&first)), ([64, 1, 1], 1024, [8, 1024]));
    let half = launch(DType::F16, &[2048, 512], 0);
    assert_eq!((half.groups, cut(&half)), ([32, 1, 1], [16, 1024]));
}

#[test]
fn few_very_long_rows_are_shared_by_groups() {
    let first = launch(DType::F32, &[32768, 512], 0);
    assert_eq!(first.key.program(), Program::SoftmaxColumnsSplit);
    assert_eq!((first.groups, first.threads, cut(&first)), ([16, 33, 1], 512, [32, 512]));
    // Not more groups than have a share.
    assert_eq!(launch(DType::F32, &[4096, 1024], 0).groups, [32, 16, 1]);
}

#[test]
fn many_rows_are_read_in_the_longest_stretches() {
    let many = launch(DType::F32, &[4, 512, 64, 64], 1);
    assert_eq!((many.groups, cut(&many)), ([512, 1, 1], [32, 512]));
    // No thread without a share of a row.
    assert_eq!(cut(&launch(DType::F32, &[4, 20, 64, 64], 1)), [32, 128]);
}

#[test]
fn other_rows_are_left_to_the_other_kernel() {
    for (shape, axis) in [(&[512, 2048][..], 1), (&[16, 4096], 0), (&[1000, 7], 0), (&[40], 0)] {
        assert_eq!(launch(DType::F32, shape, axis).key.program(), Program::Softmax, "{shape:?}");
    }
}

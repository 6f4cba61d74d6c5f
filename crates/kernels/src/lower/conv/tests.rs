use millstream_core::{Command, DType, Layout};

use super::*;

const LIMITS: Limits = Limits {
    max_threads: 1024,
    shared_bytes: 48 << 10,
    simd_width: 32,
    f64: true,
    matrices: false,
    tensor_cores: false,
    parallel_groups: 132,
};

fn operand(place: usize, shape: &[usize]) -> Operand<RawBuffer> {
    let layout = Layout::contiguous(DType::F32, shape).unwrap();
    Operand::new(RawBuffer { address: place << 32, bytes: layout.extent_bytes() }, layout)
}

fn convolution(dst: &[usize], src: &[usize], weight: &[usize], params: ConvParams) -> Launch {
    lowered(dst, src, weight, params, &LIMITS)
}

fn lowered(
    dst: &[usize],
    src: &[usize],
    weight: &[usize],
    params: ConvParams,
    limits: &Limits,
) -> Launch {
    let (dst, src, weight) = (operand(1, dst), operand(2, src), operand(3, weight));
    let command =
        Command::conv(dst, src, weight, None, None, params, 1.0, Activation::Relu).unwrap();
    crate::lower(&command, 0, limits).unwrap().launches[0].clone()
}

#[test]
fn many_channels_go_in_tiles() {
    let params = ConvParams { pad_before: [1; 3], pad_after: [1; 3], ..ConvParams::new(1) };
    let launch = convolution(&[1, 256, 400], &[1, 80, 400], &[256, 80, 3], params);
    assert_eq!((launch.key.program(), launch.groups), (Program::Conv, [8 * 13, 1, 1]));
    assert_eq!(launch.threads, 256);
    let gpu = Limits { parallel_groups: 4 * 132, ..LIMITS };
    let launch = lowered(&[1, 256, 200], &[1, 80, 200], &[256, 80, 3], params, &gpu);
    assert_eq!((launch.key.program(), launch.groups), (Program::ConvSplitK, [8, 1, 13]));
    assert!(launch.key.constants().any(|constant| constant == ("DENSE", 1)));
}

#[test]
fn dense_weights_go_through_matrices_where_the_device_has_them() {
    let params = ConvParams { pad_before: [1; 3], pad_after: [1; 3], ..ConvParams::new(1) };
    let with = Limits { matrices: true, shared_bytes: 32 << 10, parallel_groups: 40, ..LIMITS };
    let launch = lowered(&[1, 256, 400], &[1, 80, 400], &[256, 80, 3], params, &with);
    assert_eq!((launch.key.program(), launch.groups), (Program::ConvMatrices, [4 * 7, 1, 1]));
    assert_eq!(launch.threads, 128);
    let constant = |launch: &Launch, constant| launch.key.constants().any(|own| own == constant);
    assert!(constant(&launch, ("TILE_M", 64)) && constant(&launch, ("A_MODE", 3)));
    // 27 weights of an output do not begin at multiples of 16 bytes.
    let odd = lowered(&[1, 256, 400], &[1, 9, 400], &[256, 9, 3], params, &with);
    assert!(constant(&odd, ("A_MODE", 1)), "{odd:?}");
    let (dst, src) = (operand(1, &[1, 256, 400]), operand(2, &[1, 80, 400]));
    let transposed =
        Layout::contiguous(DType::F32, &[256, 3, 80]).unwrap().transpose(1, 2).unwrap();
    let weight =
        Operand::new(RawBuffer { address: 3 << 32, bytes: transposed.extent_bytes() }, transposed);
    let command =
        Command::conv(dst, src, weight, None, None, params, 1.0, Activation::None).unwrap();
    let launch = crate::lower(&command, 0, &with).unwrap().launches[0].clone();
    assert_eq!(launch.key.program(), Program::Conv);
}

#[test]
fn single_channels_go_one_by_one() {
    let params = ConvParams { groups: 64, ..ConvParams::new(2) };
    let launch = convolution(&[1, 64, 30, 30], &[1, 64, 32, 32], &[64, 1, 3, 3], params);
    assert_eq!(launch.key.program(), Program::ConvDepthwise);
    // A thread has four outputs of a row.
    assert_eq!((launch.groups, launch.threads), ([60, 1, 1], 256));
    let constants: Vec<_> = launch.key.constants().map(|constant| constant.1).collect();
    assert_eq!(constants, [DType::F32 as i32, 1, 3, 3, 1, 0]);
    let step = ConvParams { stride: [1, 2, 1], ..params };
    let launch = convolution(&[1, 64, 30, 15], &[1, 64, 32, 32], &[64, 1, 3, 3], step);
    assert_eq!(launch.key.program(), Program::ConvDepthwise);
}

#[test]
fn other_windows_and_pairs_of_channels_go_one_by_one() {
    let program = |dst: &[usize], src: &[usize], weight: &[usize], params: ConvParams| {
        convolution(dst, src, weight, params).key.program()
    };
    let two = ConvParams { groups: 32, ..ConvParams::new(2) };
    let pairs = program(&[1, 64, 30, 30], &[1, 64, 32, 32], &[64, 2, 3, 3], two);
    let one = ConvParams { groups: 64, ..ConvParams::new(2) };
    let apart = ConvParams { dilation: [1, 2, 1], ..one };
    let apart = program(&[1, 64, 30, 28], &[1, 64, 32, 32], &[64, 1, 3, 3], apart);
    let far = ConvParams { stride: [1, 3, 1], ..one };
    let far = program(&[1, 64, 30, 10], &[1, 64, 32, 32], &[64, 1, 3, 3], far);
    let large = program(&[1, 64, 25, 25], &[1, 64, 32, 32], &[64, 1, 8, 8], one);
    let axes = ConvParams { groups: 64, ..ConvParams::new(1) };
    let line = program(&[1, 64, 30], &[1, 64, 32], &[64, 1, 3], axes);
    assert_eq!([pairs, apart, far, large, line], [Program::ConvDirect; 5]);
}

#[test]
fn far_padding_is_counted_in_64_bits() {
    let far =
        ConvParams { pad_before: [1 << 31, 0, 0], stride: [1 << 31, 1, 1], ..ConvParams::new(1) };
    let launch = convolution(&[1, 8, 2], &[1, 8, 9], &[8, 8, 1], far);
    assert!(launch.key.constants().any(|constant| constant == ("WIDE", 1)));
}

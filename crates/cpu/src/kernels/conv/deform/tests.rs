use millstream_core::{Activation, BoundCommand, Command, ConvParams, DType, Result};

use crate::kernels::shared::testing::{
    Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

fn deform(
    dst: &Tensor,
    [src, weight, offset]: [&Tensor; 3],
    mask: Option<&Tensor>,
    params: ConvParams,
    offset_groups: u32,
) -> Result<BoundCommand> {
    let (src, weight, offset) = (src.operand(), weight.operand(), offset.operand());
    let mask = mask.map(Tensor::operand);
    Command::deform_conv(dst.operand(), src, weight, offset, None, mask, params, offset_groups)
}

/// One tap over two rows of three, moved by y and x.
fn moved(y: f32, x: f32) -> f32 {
    let src = Tensor::new(&[1, 1, 2, 3], &[1.0f32, 2.0, 4.0, 8.0, 16.0, 32.0]);
    let weight = Tensor::new(&[1, 1, 2, 3], &[1.0f32, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let mut offsets = [0.0; 12];
    [offsets[0], offsets[1]] = [y, x];
    let (offset, dst) =
        (Tensor::new(&[1, 12, 1, 1], &offsets), Tensor::output(DType::F32, &[1, 1, 1, 1]));
    run(deform(&dst, [&src, &weight, &offset], None, ConvParams::new(2), 1));
    dst.values()[0]
}

#[test]
fn taps_move_down_and_across_and_see_zeros_outside() {
    assert_eq!(moved(0.0, 0.0), 1.0);
    assert_eq!(moved(1.0, 0.0), 8.0);
    assert_eq!(moved(0.0, 2.0), 4.0);
    assert_eq!(moved(0.5, 1.25), (2.0 * 0.75 + 4.0 * 0.25 + 16.0 * 0.75 + 32.0 * 0.25) / 2.0);
    assert_eq!(moved(-0.25, 0.0), 0.75);
    assert_eq!(moved(1.75, 2.0), 8.0);
    assert_eq!(moved(-0.5, -0.5), 0.25);
    assert_eq!([moved(-1.0, 0.0), moved(2.0, 0.0), moved(0.0, 3.0)], [0.0; 3]);
}

#[test]
fn taps_that_are_moved_beyond_all_bounds_see_zeros() {
    for far in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e19, -1e19, 3e9] {
        assert_eq!([moved(far, 0.0), moved(0.0, far), moved(far, far)], [0.0; 3], "{far}");
    }
}

#[test]
fn what_counts_nothing_need_not_be_finite() {
    let src = Tensor::new(&[1, 1, 1, 2], &[f32::NAN, 3.0]);
    let weight = Tensor::new(&[1, 1, 1, 1], &[1.0f32]);
    let offset = Tensor::new(&[1, 2, 1, 2], &[0.0f32, 0.0, 1.0, f32::NAN]);
    let dst = Tensor::output(DType::F32, &[1, 1, 1, 2]);
    run(deform(&dst, [&src, &weight, &offset], None, ConvParams::new(2), 1));
    assert_eq!(dst.values::<f32>(), [3.0, 0.0]);
}

#[test]
fn unmoved_taps_make_an_ordinary_convolution() {
    // More than one block of outputs, of positions and of the depth.
    let (channels, outputs, [high, wide]) = (130, 270, [9, 20]);
    let params = ConvParams {
        groups: 1,
        stride: [2, 1, 1],
        dilation: [1, 2, 1],
        pad_before: [1, 2, 0],
        pad_after: [0, 1, 0],
        ..ConvParams::new(2)
    };
    let out = [(high + 1 - 3) / 2 + 1, wide + 3 - 4];
    for dtype in TYPES {
        let src = [2, channels, high, wide];
        let src = Tensor::floats(dtype, &src, &noise(src.iter().product(), 1));
        let weight = [outputs, channels, 3, 3];
        let weight = Tensor::floats(dtype, &weight, &noise(weight.iter().product(), 2));
        let shape = [2, outputs, out[0], out[1]];
        let offset = [2, 2 * 18, out[0], out[1]];
        let offset = Tensor::floats(dtype, &offset, &vec![0.0; offset.iter().product()]);
        let [plain, dst] = [0, 1].map(|_| Tensor::output(dtype, &shape));
        let (to, from, by) = (plain.operand(), src.operand(), weight.operand());
        run(Command::conv(to, from, by, None, None, params, 1.0, Activation::None));
        run(deform(&dst, [&src, &weight, &offset], None, params, 2));
        assert_eq!(dst.to_f64(), plain.to_f64(), "{dtype}");
    }
}

#[test]
fn each_group_of_offsets_moves_and_masks_its_own_channels() {
    // Two groups of weights, three of offsets: channels 2 and 3 share offsets, but not weights.
    for dtype in TYPES {
        let values: Vec<f64> = (0..6 * 4).map(|i| f64::from(i % 7)).collect();
        let src = Tensor::floats(dtype, &[1, 6, 1, 4], &values);
        let weight = Tensor::floats(dtype, &[2, 3, 1, 1], &[1.0, 2.0, 4.0, 1.0, 2.0, 4.0]);
        let by = [1.0, 2.0, -1.0];
        let offset: Vec<f64> =
            by.iter().flat_map(|&by| [0.0; 4].into_iter().chain([by; 4])).collect();
        let offset = Tensor::floats(dtype, &[1, 6, 1, 4], &offset);
        let factors = [1.0, 0.5, 2.0];
        let mask: Vec<f64> = factors.iter().flat_map(|&by| [by; 4]).collect();
        let mask = Tensor::floats(dtype, &[1, 3, 1, 4], &mask);
        let dst = Tensor::output(dtype, &[1, 2, 1, 4]);
        let params = ConvParams { groups: 2, ..ConvParams::new(2) };
        run(deform(&dst, [&src, &weight, &offset], Some(&mask), params, 3));
        let seen = |channel: usize, x: usize| {
            let place = x as f64 + by[channel / 2];
            let inside = (0.0..4.0).contains(&place);
            let value = if inside { values[channel * 4 + place as usize] } else { 0.0 };
            f64::from(1 << (channel % 3)) * factors[channel / 2] * value
        };
        let expected: Vec<f64> =
            (0..8).map(|i| (0..3).map(|channel| seen(i / 4 * 3 + channel, i % 4)).sum()).collect();
        assert_close(&dst.to_f64(), &expected, tolerance(dtype));
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let (channels, outputs, [high, wide]) = (12, 40, [30, 50]);
    let floats = |shape: &[usize], seed| {
        Tensor::floats(DType::F32, shape, &noise(shape.iter().product(), seed))
    };
    let src = floats(&[2, channels, high, wide], 1);
    let weight = floats(&[outputs, channels, 3, 3], 2);
    let offset = floats(&[2, 3 * 18, high, wide], 3);
    let mask = floats(&[2, 3 * 9, high, wide], 4);
    let dst = Tensor::output(DType::F32, &[2, outputs, high, wide]);
    let (pad_before, pad_after) = ([1, 1, 0], [1, 1, 0]);
    let params = ConvParams { pad_before, pad_after, ..ConvParams::new(2) };
    let command = deform(&dst, [&src, &weight, &offset], Some(&mask), params, 3).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
}

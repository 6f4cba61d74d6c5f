use millstream_core::{
    Command, CoordinateMode, DType, Layout, MAX_RANK, NearestRounding, ResizeMode, ResizeParams,
};

use crate::kernels::shared::testing::{
    Tensor, assert_close, assert_same_bits_in_any_order, noise, run,
};
use CoordinateMode::*;

fn params(mode: ResizeMode, coordinates: CoordinateMode, scales: &[f64]) -> ResizeParams {
    let mut all = [1.0; MAX_RANK];
    all[..scales.len()].copy_from_slice(scales);
    ResizeParams {
        mode,
        coordinates,
        scales: all,
        region: [(0.0, 1.0); MAX_RANK],
        extrapolation: 0.0,
        exclude_outside: false,
        antialias: false,
        sizes: [1; 8],
    }
}

fn resized(values: &[f64], shape: [usize; 2], to: [usize; 2], params: ResizeParams) -> Vec<f64> {
    let src = Tensor::floats(DType::F64, &shape, values);
    let dst = Tensor::output(DType::F64, &to);
    run(Command::resize(dst.operand(), src.operand(), params));
    dst.to_f64()
}

const FOUR: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

/// The numbers are those of the examples in ONNX's description of the operator.
#[test]
fn linear_examples_of_onnx_are_met() {
    let up = resized(&FOUR, [2, 2], [4, 4], params(ResizeMode::Linear, HalfPixel, &[2.0, 2.0]));
    let expected =
        [1.0, 1.25, 1.75, 2.0, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3.0, 3.25, 3.75, 4.0];
    assert_close(&up, &expected, 1e-14);
    let corners = params(ResizeMode::Linear, AlignCorners, &[2.0, 2.0]);
    let up = resized(&FOUR, [2, 2], [4, 4], corners);
    // Coordinates are computed in `f32`: a third is no exact one.
    assert_close(&up[..4], &[1.0, 4.0 / 3.0, 5.0 / 3.0, 2.0], 1e-7);
    assert_close(&up[12..], &[3.0, 10.0 / 3.0, 11.0 / 3.0, 4.0], 1e-7);
    let values: Vec<f64> = (1..=8).map(f64::from).collect();
    let down = params(ResizeMode::Linear, HalfPixel, &[0.6, 0.6]);
    assert_close(&resized(&values, [2, 4], [1, 2], down), &[2.6666665, 4.3333331], 1e-6);
}

/// Numbers that lie halfway between two steps of a quantization must fall on the same side as in onnxruntime.
#[test]
fn linear_sums_run_through_the_first_row_and_then_the_second() {
    let step = 0.0301f32;
    let values: Vec<f32> = (0..63).map(|i| ((i * 37 % 255) as f32 - 128.0) * step).collect();
    let src =
        Tensor::floats(DType::F32, &[9, 7], &values.iter().map(|&x| x.into()).collect::<Vec<_>>());
    let dst = Tensor::output(DType::F32, &[15, 11]);
    let params = params(ResizeMode::Linear, HalfPixel, &[f64::from(1.7f32); 2]);
    run(Command::resize(dst.operand(), src.operand(), params));
    // The two neighbors along an axis and their weights, in `f32`.
    let along = |x: usize, size: usize| {
        let at = ((x as f32 + 0.5) / 1.7 - 0.5).clamp(0.0, (size - 1) as f32);
        let (first, second) = (at as usize, (at as usize + 1).min(size - 1));
        let weights = (second as f32 - at, at - first as f32);
        (first, second, if first == second { (0.5, 0.5) } else { weights })
    };
    for (place, made) in dst.to_f64().into_iter().enumerate() {
        let (top, bottom, rows) = along(place / 11, 9);
        let (left, right, columns) = along(place % 11, 7);
        let at = |row: usize, column: usize| values[row * 7 + column];
        let sum = columns.0 * rows.0 * at(top, left)
            + columns.1 * rows.0 * at(top, right)
            + columns.0 * rows.1 * at(bottom, left)
            + columns.1 * rows.1 * at(bottom, right);
        assert_eq!(made as f32, sum, "at {place}");
    }
}

/// 1 / (1 / 3) is 3, though a third as `f32` is a little more than a third.
#[test]
fn nearest_elements_do_not_fall_below_a_whole_coordinate() {
    let values: Vec<f64> = (0..12).map(f64::from).collect();
    let third = params(
        ResizeMode::Nearest(NearestRounding::Floor),
        Asymmetric,
        &[1.0, f64::from(1.0f32 / 3.0)],
    );
    assert_eq!(resized(&values, [1, 12], [1, 4], third), [0.0, 3.0, 6.0, 9.0]);
}

#[test]
fn cubic_examples_of_onnx_are_met() {
    let values: Vec<f64> = (1..=16).map(f64::from).collect();
    let cubic = params(ResizeMode::Cubic(-0.75), HalfPixel, &[2.0, 2.0]);
    let up = resized(&values, [4, 4], [8, 8], cubic);
    let first =
        [0.47265625, 0.76953125, 1.24609375, 1.875, 2.28125, 2.91015625, 3.38671875, 3.68359375];
    assert_close(&up[..8], &first, 1e-14);
    let excluding = ResizeParams { exclude_outside: true, ..cubic };
    let up = resized(
        &values,
        [4, 4],
        [8, 8],
        ResizeParams { mode: ResizeMode::Cubic(-0.5), ..excluding },
    );
    assert_close(&up[..3], &[0.55882353, 0.81494204, 1.35698249], 1e-7);
}

#[test]
fn antialias_examples_of_onnx_are_met() {
    let values: Vec<f64> = (1..=16).map(f64::from).collect();
    let linear =
        ResizeParams { antialias: true, ..params(ResizeMode::Linear, HalfPixel, &[0.6, 0.6]) };
    assert_close(&resized(&values, [4, 4], [2, 2], linear), &[2.875, 4.5, 9.375, 11.0], 1e-6);
    let cubic = ResizeParams { mode: ResizeMode::Cubic(-0.75), ..linear };
    assert_close(
        &resized(&values, [4, 4], [2, 2], cubic),
        &[2.5180721, 4.2858863, 9.589329, 11.357142],
        1e-6,
    );
}

#[test]
fn nearest_rounds_as_asked_and_crops_extrapolate() {
    let values: Vec<f64> = (1..=4).map(f64::from).collect();
    let nearest =
        |rounding, coordinates| params(ResizeMode::Nearest(rounding), coordinates, &[1.0, 2.0]);
    let up = |params| resized(&values, [1, 4], [1, 8], params);
    let floor = up(nearest(NearestRounding::Floor, Asymmetric));
    assert_eq!(floor, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]);
    let ceil = up(nearest(NearestRounding::Ceil, Asymmetric));
    assert_eq!(ceil, [1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0]);
    let prefer = up(nearest(NearestRounding::PreferCeil, Asymmetric));
    assert_eq!(prefer, ceil);
    let mut crop = nearest(NearestRounding::PreferFloor, CropAndResize);
    crop.region[1] = (0.5, 1.5);
    crop.extrapolation = 9.0;
    assert_eq!(resized(&values, [1, 4], [1, 4], crop), [2.0, 3.0, 9.0, 9.0]);
    crop.mode = ResizeMode::Linear;
    assert_eq!(resized(&values, [1, 4], [1, 4], crop), [2.5, 3.5, 9.0, 9.0]);
}

#[test]
fn layouts_do_not_change_the_bits() {
    let values = noise(2 * 3 * 9 * 7, 1);
    let shapes = ([2, 3, 9, 7], [2, 3, 5, 16]);
    let modes = [ResizeMode::Linear, ResizeMode::Cubic(-0.75)];
    for mode in modes {
        let params = params(mode, HalfPixel, &[1.0, 1.0, 5.0 / 9.0, 16.0 / 7.0]);
        let dense = Tensor::floats(DType::F32, &shapes.0, &values);
        let expected = Tensor::output(DType::F32, &shapes.1);
        run(Command::resize(expected.operand(), dense.operand(), params));
        // Channels last, seen with channels first.
        let last = |[n, c, h, w]: [usize; 4]| {
            let dense = Layout::contiguous(DType::F32, &[n, h, w, c]).unwrap();
            dense.permute(&[0, 3, 1, 2]).unwrap()
        };
        let src = Tensor::floats_strided(last(shapes.0), &values);
        let dst = Tensor::uninit(last(shapes.1));
        run(Command::resize(dst.operand(), src.operand(), params));
        assert_eq!(dst.values::<f32>(), expected.values::<f32>());
    }
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let src = Tensor::floats(DType::F16, &[40, 31, 900], &noise(40 * 31 * 900, 1));
    let dst = Tensor::output(DType::F16, &[40, 62, 900]);
    let params = params(ResizeMode::Linear, HalfPixel, &[1.0, 2.0, 1.0]);
    let command = Command::resize(dst.operand(), src.operand(), params).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
}

#[test]
fn channels_that_are_neighbors_give_the_same_result() {
    let (from, to) = ([2, 5, 4, 3], [2, 5, 9, 7]);
    let values = noise(from.iter().product(), 9);
    let last = |[n, c, h, w]: [usize; 4]| {
        Layout::contiguous(DType::F32, &[n, h, w, c]).unwrap().permute(&[0, 3, 1, 2]).unwrap()
    };
    let dense = |shape: [usize; 4]| Layout::contiguous(DType::F32, &shape).unwrap();
    let scales = [1.0, 1.0, 9.0 / 4.0, 7.0 / 3.0];
    for mode in [ResizeMode::Nearest(NearestRounding::Floor), ResizeMode::Linear] {
        let compute = |from: Layout, to: Layout| {
            let (src, dst) = (Tensor::floats_strided(from, &values), Tensor::uninit(to));
            let params = params(mode, HalfPixel, &scales);
            let command = Command::resize(dst.operand(), src.operand(), params).unwrap();
            assert_same_bits_in_any_order(&command, &dst);
            dst.to_f64()
        };
        let expected = compute(dense(from), dense(to));
        assert_close(&compute(last(from), last(to)), &expected, 1e-6);
    }
}

use millstream_core::{Activation, Command, ConvParams, DType, Layout};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};

fn line(stride: u32, before: u32, after: u32) -> ConvParams {
    ConvParams {
        stride: [stride, 1, 1],
        pad_before: [before, 0, 0],
        pad_after: [after, 0, 0],
        ..ConvParams::new(1)
    }
}

fn conv(dst: &Tensor, src: &Tensor, weight: &Tensor, params: ConvParams) {
    let (dst, src, weight) = (dst.operand(), src.operand(), weight.operand());
    run(Command::conv(dst, src, weight, None, None, params, 1.0, Activation::None));
}

#[test]
fn hand_computed_values_are_met() {
    let src = Tensor::new(&[1, 1, 4], &[1.0f32, 2.0, 3.0, 4.0]);
    let weight = Tensor::new(&[1, 1, 3], &[1.0f32, 10.0, 100.0]);
    let dst = Tensor::output(DType::F32, &[1, 1, 5]);
    conv(&dst, &src, &weight, line(1, 2, 1));
    assert_eq!(dst.values::<f32>(), [100.0, 210.0, 321.0, 432.0, 43.0]);
    let back = Tensor::output(DType::F32, &[1, 1, 9]);
    let params = line(2, 0, 0);
    let (to, from, by) = (back.operand(), src.operand(), weight.operand());
    run(Command::conv_transpose(to, from, by, None, params, 1.0, Activation::None));
    assert_eq!(back.values::<f32>(), [1.0, 10.0, 102.0, 20.0, 203.0, 30.0, 304.0, 40.0, 400.0]);
}

#[test]
fn wide_layers_follow_the_definition() {
    let (channels, outputs, length) = (70, 130, 300);
    for dtype in FLOATS {
        let src = Tensor::floats(dtype, &[1, channels, length], &noise(channels * length, 1));
        let weight =
            Tensor::floats(dtype, &[outputs, channels, 5], &noise(outputs * channels * 5, 2));
        let dst = Tensor::output(dtype, &[1, outputs, length]);
        conv(&dst, &src, &weight, line(1, 2, 2));
        let (x, w) = (src.to_f64(), weight.to_f64());
        let one = |row: usize, at: usize| -> f64 {
            let seen = |c: usize, t: usize| {
                (at + t).checked_sub(2).filter(|&i| i < length).map_or(0.0, |i| x[c * length + i])
            };
            (0..channels)
                .flat_map(|c| (0..5).map(move |t| (c, t)))
                .map(|(c, t)| w[(row * channels + c) * 5 + t] * seen(c, t))
                .sum()
        };
        let expected: Vec<f64> =
            (0..outputs * length).map(|i| one(i / length, i % length)).collect();
        assert_close(&dst.to_f64(), &expected, tolerance(dtype).max(2e-5));
    }
}

#[test]
fn bits_depend_neither_on_threads_nor_on_the_batch() {
    for (groups, channels, outputs) in [(1, 33, 150), (33, 33, 33)] {
        let params = ConvParams { groups, ..line(1, 1, 1) };
        let channels_of_group = channels / groups as usize;
        let (batch, length) = (5, 700);
        let values = noise(batch * channels * length, 3);
        let weight = Tensor::floats(
            DType::F32,
            &[outputs, channels_of_group, 3],
            &noise(outputs * channels_of_group * 3, 4),
        );
        let src = Tensor::floats(DType::F32, &[batch, channels, length], &values);
        let dst = Tensor::output(DType::F32, &[batch, outputs, length]);
        let (to, from, by) = (dst.operand(), src.operand(), weight.operand());
        let command =
            Command::conv(to, from, by, None, None, params, 1.0, Activation::Gelu).unwrap();
        assert_same_bits_in_any_order(&command, &dst);
        let whole = dst.values::<f32>();
        for index in 0..batch {
            let size = channels * length;
            let src =
                Tensor::floats(DType::F32, &[1, channels, length], &values[index * size..][..size]);
            let alone = Tensor::output(DType::F32, &[1, outputs, length]);
            let (to, from) = (alone.operand(), src.operand());
            run(Command::conv(to, from, by, None, None, params, 1.0, Activation::Gelu));
            assert_eq!(
                alone.values::<f32>(),
                whole[index * outputs * length..][..outputs * length]
            );
        }
    }
}

#[test]
fn layouts_do_not_change_the_bits() {
    let plane = ConvParams { stride: [2, 1, 1], pad_before: [1, 1, 0], ..ConvParams::new(2) };
    let (x, w) = (noise(2 * 6 * 9 * 8, 5), noise(7 * 6 * 3 * 2, 6));
    let dense = |shape: &[usize]| Layout::contiguous(DType::F32, shape).unwrap();
    let transposed = |shape: &[usize]| {
        let reversed: Vec<usize> = shape.iter().rev().copied().collect();
        dense(&reversed).permute(&[3, 2, 1, 0]).unwrap()
    };
    let (from, by, to) = ([2, 6, 9, 8], [7, 6, 3, 2], [2, 7, 4, 8]);
    let compute = |from: Layout, by: Layout, to: Layout| {
        let dst = Tensor::uninit(to);
        let src = Tensor::floats_strided(from, &x);
        conv(&dst, &src, &Tensor::floats_strided(by, &w), plane);
        dst.values::<f32>()
    };
    let expected = compute(dense(&from), dense(&by), dense(&to));
    assert_eq!(compute(transposed(&from), transposed(&by), transposed(&to)), expected);
    assert_eq!(compute(transposed(&from), dense(&by), transposed(&to)), expected);
}

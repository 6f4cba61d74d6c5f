use millstream_core::{Command, DType, Layout, PoolKind, PoolOrder, PoolParams};

use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, noise, run};

const PLAIN: PoolParams = PoolParams {
    kind: PoolKind::Max,
    spatial: 1,
    kernel: [2, 1, 1],
    stride: [1; 3],
    pad_before: [0; 3],
    pad_after: [0; 3],
    dilation: [1; 3],
    ceil: false,
    indices: false,
    order: PoolOrder::Channel,
};

fn pooled(values: &[f32], size: usize, params: PoolParams) -> Vec<f32> {
    let src = Tensor::new(&[1, 1, values.len()], values);
    let dst = Tensor::output(DType::F32, &[1, 1, size]);
    run(Command::pool(dst.operand(), None, src.operand(), params));
    dst.values()
}

#[test]
fn windows_step_and_stretch() {
    let values = [1.0, 5.0, 2.0, 4.0, 3.0];
    assert_eq!(pooled(&values, 4, PLAIN), [5.0, 5.0, 4.0, 4.0]);
    assert_eq!(pooled(&values, 2, PoolParams { stride: [2, 1, 1], ..PLAIN }), [5.0, 4.0]);
    // One more by the other rule, of a single element.
    assert_eq!(
        pooled(&values, 3, PoolParams { stride: [2, 1, 1], ceil: true, ..PLAIN }),
        [5.0, 4.0, 3.0]
    );
    assert_eq!(pooled(&values, 3, PoolParams { dilation: [2, 1, 1], ..PLAIN }), [2.0, 5.0, 3.0]);
}

#[test]
fn padding_counts_only_where_it_is_asked_for() {
    let padded = PoolParams { pad_before: [1, 0, 0], pad_after: [1, 0, 0], ..PLAIN };
    assert_eq!(pooled(&[-1.0, -5.0], 3, padded), [-1.0, -1.0, -5.0]);
    let mean = |include_padding| {
        let mut params = padded;
        params.kind = PoolKind::Average { include_padding };
        params
    };
    assert_eq!(pooled(&[-1.0, -5.0], 3, mean(true)), [-0.5, -3.0, -2.5]);
    assert_eq!(pooled(&[-1.0, -5.0], 3, mean(false)), [-1.0, -3.0, -5.0]);
    // A tap beyond the padding is not counted.
    let step = PoolParams { stride: [3, 1, 1], kernel: [3, 1, 1], ..mean(true) };
    assert_eq!(pooled(&[4.0, 2.0, 6.0, 8.0], 2, step), [2.0, 14.0 / 3.0]);
}

#[test]
fn places_are_those_of_the_first_largest_in_the_plane() {
    let values = [1.0f32, 7.0, 7.0, 0.0, f32::NAN, 2.0, 3.0, 1.0, f32::NEG_INFINITY];
    let src = Tensor::new(&[1, 1, 3, 3], &values);
    let (dst, at) =
        (Tensor::output(DType::F32, &[1, 1, 3, 2]), Tensor::output(DType::I64, &[1, 1, 3, 2]));
    let params = PoolParams { spatial: 2, kernel: [1, 2, 1], ..PLAIN };
    run(Command::pool(dst.operand(), Some(at.operand()), src.operand(), params));
    assert_eq!(at.values::<i64>(), [1, 1, 4, 4, 6, 7]);
    let found = dst.values::<f32>();
    assert_eq!((found[0], found[4], found[5]), (7.0, 3.0, 1.0));
    assert!(found[2].is_nan() && found[3].is_nan());
}

#[test]
fn many_windows_and_few_give_the_same_bits() {
    let values = noise(2 * 3 * 9 * 700, 1);
    let src = Tensor::floats(DType::F32, &[2, 3, 9, 700], &values);
    let params = PoolParams {
        kind: PoolKind::Average { include_padding: false },
        spatial: 2,
        kernel: [3, 5, 1],
        stride: [2, 1, 1],
        pad_before: [1, 2, 0],
        pad_after: [1, 2, 0],
        dilation: [1; 3],
        ceil: false,
        indices: false,
        order: PoolOrder::Channel,
    };
    let dst = Tensor::output(DType::F32, &[2, 3, 5, 700]);
    let command = Command::pool(dst.operand(), None, src.operand(), params).unwrap();
    assert_same_bits_in_any_order(&command, &dst);
    // A window of its own for the last columns of the first channel.
    let columns: Vec<f64> =
        (0..9).flat_map(|row| values[row * 700 + 697..][..3].to_vec()).collect();
    let src = Tensor::floats(DType::F32, &[1, 1, 9, 3], &columns);
    let alone = Tensor::output(DType::F32, &[1, 1, 5, 1]);
    let params =
        PoolParams { kernel: [3, 3, 1], pad_before: [1, 0, 0], pad_after: [1, 0, 0], ..params };
    run(Command::pool(alone.operand(), None, src.operand(), params));
    let whole = dst.values::<f32>();
    let expected: Vec<f32> = (0..5).map(|row| whole[row * 700 + 699]).collect();
    assert_eq!(alone.values::<f32>(), expected);
}

#[test]
fn channels_that_are_neighbors_give_the_same_bits() {
    let values = noise(2 * 20 * 7 * 6, 3);
    let last = |[n, c, h, w]: [usize; 4]| {
        Layout::contiguous(DType::F32, &[n, h, w, c]).unwrap().permute(&[0, 3, 1, 2]).unwrap()
    };
    for kind in [
        PoolKind::Max,
        PoolKind::Average { include_padding: true },
        PoolKind::Average { include_padding: false },
    ] {
        let params = PoolParams {
            kind,
            spatial: 2,
            kernel: [3, 2, 1],
            stride: [2, 1, 1],
            pad_before: [1, 0, 0],
            pad_after: [0, 1, 0],
            ..PLAIN
        };
        let compute = |from: Layout, to: Layout| {
            let (src, dst) = (Tensor::floats_strided(from, &values), Tensor::uninit(to));
            let command = Command::pool(dst.operand(), None, src.operand(), params).unwrap();
            assert_same_bits_in_any_order(&command, &dst);
            dst.values::<f32>()
        };
        let (from, to) = ([2, 20, 7, 6], [2, 20, 3, 6]);
        let dense = |shape: [usize; 4]| Layout::contiguous(DType::F32, &shape).unwrap();
        let expected = compute(dense(from), dense(to));
        assert_eq!(compute(last(from), last(to)), expected);
        assert_eq!(compute(last(from), dense(to)), expected);
    }
}

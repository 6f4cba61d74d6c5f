use millstream_core::{Command, DType, Layout};

use crate::kernels::shared::testing::{
    FLOATS, Tensor, assert_close, assert_same_bits_in_any_order, noise, run, tolerance,
};

/// The definition, along the last axis.
fn reference(values: &[f64], count: usize, log: bool) -> Vec<f64> {
    let one = |row: &[f64]| {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
        let map = |x: &f64| if log { x - top - sum.ln() } else { (x - top).exp() / sum };
        row.iter().map(map).collect::<Vec<_>>()
    };
    values.chunks(count).flat_map(one).collect()
}

fn softmax(dtype: DType, shape: &[usize], values: &[f64], axis: usize, log: bool) -> Tensor {
    let src = Tensor::floats(dtype, shape, values);
    let dst = Tensor::output(dtype, shape);
    run(Command::softmax(dst.operand(), src.operand(), axis, log));
    dst
}

#[test]
fn hand_computed_values_are_met() {
    let found = softmax(DType::F64, &[2, 2], &[0.0, 3f64.ln(), 5.0, 5.0], 1, false).to_f64();
    assert_close(&found, &[0.25, 0.75, 0.5, 0.5], 1e-15);
}

#[test]
fn rows_of_any_length_follow_the_definition_in_every_type() {
    for dtype in FLOATS {
        for count in [1, 7, 8, 100, 513, 2048, 2049, 5000] {
            for log in [false, true] {
                let values: Vec<_> = noise(2 * count, 1).iter().map(|x| x * 8.0).collect();
                let src = Tensor::floats(dtype, &[2, count], &values);
                let found = softmax(dtype, &[2, count], &values, 1, log).to_f64();
                let expected = reference(&src.to_f64(), count, log);
                assert_close(&found, &expected, 2.0 * tolerance(dtype));
            }
        }
    }
}

#[test]
fn large_values_do_not_overflow() {
    let found = softmax(DType::F32, &[1, 2], &[1e30, 1e30], 1, false).to_f64();
    assert_eq!(found, [0.5, 0.5]);
    let found = softmax(DType::F32, &[1, 2], &[1000.0, 0.0], 1, true).to_f64();
    assert_eq!(found, [0.0, -1000.0]);
}

#[test]
fn masked_elements_get_nothing_and_masked_rows_are_nan() {
    let low = f64::NEG_INFINITY;
    let found = softmax(DType::F32, &[2, 3], &[low, 1.0, 1.0, low, low, low], 1, false).to_f64();
    assert_eq!(found[..3], [0.0, 0.5, 0.5]);
    assert!(found[3..].iter().all(|x| x.is_nan()));
    let found = softmax(DType::F32, &[3], &[low, 1.0, 1.0], 0, true).to_f64();
    assert_eq!(found[0], low);
    let found = softmax(DType::F32, &[3], &[f64::NAN, 1.0, 1.0], 0, false).to_f64();
    assert!(found.iter().all(|x| x.is_nan()));
}

#[test]
fn axes_and_layouts_do_not_change_the_bits_of_a_row() {
    let (rows, count) = (6, 70);
    let values = noise(rows * count, 2);
    let expected = softmax(DType::F32, &[rows, count], &values, 1, false).values::<f32>();
    let transposed =
        Layout::contiguous(DType::F32, &[count, rows]).unwrap().transpose(0, 1).unwrap();
    let src = Tensor::floats_strided(transposed, &values);
    let dst = Tensor::output(DType::F32, &[rows, count]);
    run(Command::softmax(dst.operand(), src.operand(), 1, false));
    assert_eq!(dst.values::<f32>(), expected);
    // In place, and seen with the axes the other way round.
    let mut operand = src.operand();
    operand.layout = operand.layout.transpose(0, 1).unwrap();
    run(Command::softmax(operand, operand, 0, false));
    assert_eq!(src.values::<f32>(), expected);
    for row in 0..rows {
        let alone = &values[row * count..][..count];
        let found = softmax(DType::F32, &[count], alone, 0, false).values::<f32>();
        assert_eq!(found, expected[row * count..][..count]);
    }
}

#[test]
fn no_rows_and_no_elements_work() {
    softmax(DType::F32, &[0, 4], &[], 1, false);
    softmax(DType::F32, &[4, 0], &[], 1, true);
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    for axis in [0, 1] {
        let src = Tensor::floats(DType::F32, &[150, 301], &noise(150 * 301, 3));
        let dst = Tensor::output(DType::F32, &[150, 301]);
        let command = Command::softmax(dst.operand(), src.operand(), axis, false).unwrap();
        assert_same_bits_in_any_order(&command, &dst);
    }
}

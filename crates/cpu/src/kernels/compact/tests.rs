use millstream_core::{Command, DType};

use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, run};

fn count() -> Tensor {
    Tensor::output(DType::I64, &[1])
}

#[test]
fn places_of_what_is_not_zero_come_in_order_and_the_rest_is_zero() {
    let src = Tensor::new(&[2, 3], &[0.0f32, 3.0, -0.0, f32::NAN, 0.0, -1.0]);
    let (indices, count) = (Tensor::output(DType::I64, &[2, 6]), count());
    run(Command::nonzero(indices.operand(), count.operand(), src.operand()));
    assert_eq!(count.values::<i64>(), [3]);
    assert_eq!(indices.values::<i64>(), [0, 1, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0]);
}

#[test]
fn conditions_keep_slices_and_elements() {
    let src = Tensor::new(&[2, 3], &[1i32, 2, 3, 4, 5, 6]);
    let condition = Tensor::bools(&[3], &[0, 1, 1]);
    let (dst, count) = (Tensor::output(DType::I32, &[2, 3]), count());
    let operands = [dst.operand(), count.operand(), src.operand(), condition.operand()];
    let [to, number, from, by] = operands;
    run(Command::compress(to, number, from, by, Some(1)));
    assert_eq!((dst.values::<i32>(), count.values::<i64>()), (vec![2, 3, 0, 5, 6, 0], vec![2]));
    let flat = Tensor::output(DType::I32, &[3]);
    run(Command::compress(flat.operand(), number, from, by, None));
    assert_eq!(flat.values::<i32>(), [2, 3, 0]);
}

fn unique(src: &Tensor, shape: &[usize], axis: Option<usize>, sorted: bool) -> [Tensor; 5] {
    let size = axis.map_or(src.layout.elements(), |axis| shape[axis]);
    let list = || Tensor::output(DType::I64, &[size]);
    let values = Tensor::output(src.layout.dtype(), shape);
    let outputs = [values, list(), list(), list(), count()];
    run(Command::unique(outputs.each_ref().map(Tensor::operand), src.operand(), axis, sorted));
    outputs
}

#[test]
fn the_different_come_sorted_or_as_they_came() {
    let src = Tensor::new(&[6], &[2.0f32, 1.0, 1.0, 3.0, 4.0, 3.0]);
    let [values, first, inverse, counts, count] = unique(&src, &[6], None, true);
    assert_eq!(values.values::<f32>(), [1.0, 2.0, 3.0, 4.0, 0.0, 0.0]);
    assert_eq!(first.values::<i64>(), [1, 0, 3, 4, 0, 0]);
    assert_eq!(inverse.values::<i64>(), [1, 0, 0, 2, 3, 2]);
    assert_eq!(counts.values::<i64>(), [2, 1, 2, 1, 0, 0]);
    assert_eq!(count.values::<i64>(), [4]);
    let [values, first, inverse, counts, _] = unique(&src, &[6], None, false);
    assert_eq!(values.values::<f32>(), [2.0, 1.0, 3.0, 4.0, 0.0, 0.0]);
    assert_eq!(first.values::<i64>(), [0, 1, 3, 4, 0, 0]);
    assert_eq!(inverse.values::<i64>(), [0, 1, 1, 2, 3, 2]);
    assert_eq!(counts.values::<i64>(), [1, 2, 2, 1, 0, 0]);
}

#[test]
fn rows_are_different_where_one_element_is() {
    let src = Tensor::new(&[3, 3], &[1i32, 0, 0, 1, 0, 0, 2, 3, 4]);
    let [values, _, inverse, _, count] = unique(&src, &[3, 3], Some(0), true);
    assert_eq!(values.values::<i32>(), [1, 0, 0, 2, 3, 4, 0, 0, 0]);
    assert_eq!((inverse.values::<i64>(), count.values::<i64>()), (vec![0, 0, 1], vec![2]));
}

#[test]
fn nan_and_zeros_are_of_one_kind_each() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let src = Tensor::new(&[7], &[nan, -0.0, inf, nan, 0.0, -inf, -1.0]);
    let [values, _, _, counts, count] = unique(&src, &[7], None, true);
    assert_eq!(count.values::<i64>(), [5]);
    assert_eq!(values.values::<f64>()[..4], [-inf, -1.0, 0.0, inf]);
    assert!(values.values::<f64>()[4].is_nan());
    assert_eq!(counts.values::<i64>(), [1, 1, 2, 1, 2, 0, 0]);
}

#[test]
fn boxes_that_overlap_a_better_one_are_left_out() {
    // The example of ONNX's documentation.
    let boxes = [
        [0.0f32, 0.0, 1.0, 1.0],
        [0.0, 0.1, 1.0, 1.1],
        [0.0, -0.1, 1.0, 0.9],
        [0.0, 10.0, 1.0, 11.0],
        [0.0, 10.1, 1.0, 11.1],
        [0.0, 100.0, 1.0, 101.0],
    ];
    let boxes = Tensor::new(&[1, 6, 4], &boxes.concat());
    let scores = Tensor::new(&[1, 1, 6], &[0.9f32, 0.75, 0.6, 0.95, 0.5, 0.3]);
    let (selected, count) = (Tensor::output(DType::I64, &[3, 3]), count());
    run(Command::non_max_suppression(
        selected.operand(),
        count.operand(),
        boxes.operand(),
        scores.operand(),
        3,
        0.5,
        Some(0.0),
        false,
    ));
    assert_eq!(selected.values::<i64>(), [0, 0, 3, 0, 0, 0, 0, 0, 5]);
    assert_eq!(count.values::<i64>(), [3]);
    run(Command::non_max_suppression(
        selected.operand(),
        count.operand(),
        boxes.operand(),
        scores.operand(),
        3,
        0.5,
        Some(0.4),
        false,
    ));
    assert_eq!(
        (selected.values::<i64>()[6..].to_vec(), count.values::<i64>()),
        (vec![0; 3], vec![2])
    );
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let values: Vec<i32> = (0..100_003).map(|i| i % 3).collect();
    let src = Tensor::new(&[100_003], &values);
    let (indices, count) = (Tensor::output(DType::I64, &[1, 100_003]), count());
    let command = Command::nonzero(indices.operand(), count.operand(), src.operand()).unwrap();
    assert_same_bits_in_any_order(&command, &indices);
    assert_eq!(count.values::<i64>(), [66_668]);
}

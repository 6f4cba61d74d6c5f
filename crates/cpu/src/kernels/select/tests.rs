use millstream_core::{Command, DType, Element, Layout, Scalar};

use crate::kernels::shared::testing::{Tensor, assert_same_bits_in_any_order, noise, run};

#[test]
fn where_chooses_by_element_and_broadcasts() {
    let condition = Tensor::bools(&[2, 1], &[1, 0]);
    let a = Tensor::new(&[3], &[1i64, 2, 3]);
    let b = Tensor::strided(Layout::scalar(DType::I64), &[9i64]);
    let dst = Tensor::output(DType::I64, &[2, 3]);
    run(Command::where_(dst.operand(), condition.operand(), a.operand(), b.operand()));
    assert_eq!(dst.values::<i64>(), [1, 2, 3, 9, 9, 9]);
}

#[test]
fn where_may_replace_any_of_its_inputs() {
    let truth = || Tensor::bools(&[4], &[1, 0, 1, 0]);
    let (condition, a, b) = (truth(), truth(), Tensor::bools(&[4], &[0, 1, 1, 1]));
    run(Command::where_(condition.operand(), condition.operand(), a.operand(), b.operand()));
    assert_eq!(condition.values::<u8>(), [1, 1, 1, 1]);
    let (condition, b) = (truth(), Tensor::new(&[4], &[1.0f32, 2.0, 3.0, 4.0]));
    let a = Tensor::new(&[1], &[f32::NAN]);
    run(Command::where_(b.operand(), condition.operand(), a.operand(), b.operand()));
    let found = b.values::<f32>();
    assert!(found[0].is_nan() && found[2].is_nan());
    assert_eq!((found[1], found[3]), (2.0, 4.0));
}

fn clipped<T: Element>(values: &[T], min: Option<Scalar>, max: Option<Scalar>) -> Vec<T> {
    let tensor = Tensor::new(&[values.len()], values);
    run(Command::clip(tensor.operand(), tensor.operand(), min, max));
    tensor.values()
}

#[test]
fn clip_limits_and_lets_nan_pass() {
    let values = [f32::NAN, -2.0, 0.5, f32::INFINITY, -0.0];
    let found = clipped(&values, Some(0.0f32.into()), Some(1.0f32.into()));
    assert!(found[0].is_nan());
    assert_eq!(found[1..], [0.0, 0.5, 1.0, 0.0]);
    assert_eq!(clipped(&[5.0f64, -5.0], None, Some(1i64.into())), [1.0, -5.0]);
    assert_eq!(clipped(&[5.0f64, -5.0], Some(3i64.into()), Some(1i64.into())), [1.0, 1.0]);
}

#[test]
fn limits_beyond_an_integer_type_are_no_limits() {
    let (low, high) = (Some(Scalar::Int(-300)), Some(Scalar::Float(f64::INFINITY)));
    assert_eq!(clipped(&[-128i8, 127], low, high), [-128, 127]);
    assert_eq!(clipped(&[0u8, 255, 7], low, Some(Scalar::Int(300))), [0, 255, 7]);
    assert_eq!(clipped(&[0u8, 255, 7], Some(Scalar::Int(3)), Some(Scalar::Int(9))), [3, 9, 7]);
    assert_eq!(clipped(&[i64::MIN, i64::MAX], Some(Scalar::Int(i64::MIN + 1)), None)[0], -i64::MAX);
}

#[test]
fn results_do_not_depend_on_the_order_of_chunks() {
    let src = Tensor::floats(DType::BF16, &[90, 401], &noise(90 * 401, 1));
    let dst = Tensor::output(DType::BF16, &[90, 401]);
    let limits = (Some(Scalar::Float(-0.3)), Some(Scalar::Float(0.7)));
    let clip = Command::clip(dst.operand(), src.operand(), limits.0, limits.1).unwrap();
    assert_same_bits_in_any_order(&clip, &dst);
}

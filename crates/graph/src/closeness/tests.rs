use super::*;

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn close(found: &[f32], expected: &[f32]) -> bool {
    are_close(DType::F32, &bytes(found), &bytes(expected))
}

#[test]
fn numbers_are_close_within_a_share_of_the_largest() {
    assert!(close(&[100.005, 1.005, 0.0], &[100.0, 1.0, -0.0]));
    assert!(!close(&[100.0, 1.02], &[100.0, 1.0]));
    assert!(!close(&[1.0, 100.0], &[100.0, 1.0]));
    assert!(!close(&[1.0], &[1.0, 0.0]));
}

#[test]
fn what_is_no_number_is_close_to_its_like_alone() {
    let (nan, large) = (f32::NAN, f32::INFINITY);
    assert!(close(&[nan, large, 1.0], &[nan, large, 1.0]));
    assert!(!close(&[1.0, large], &[nan, large]));
    assert!(!close(&[nan, 1.0], &[1.0, 1.0]));
    assert!(!close(&[-large], &[large]));
    assert!(!close(&[large, 1.0], &[2.0, 1.0]));
}

#[test]
fn integers_have_to_be_equal() {
    let (one, two) = (1i32.to_ne_bytes(), 2i32.to_ne_bytes());
    assert!(are_close(DType::I32, &one, &one));
    assert!(!are_close(DType::I32, &one, &two));
}

#[test]
fn narrow_numbers_may_be_further_apart() {
    let one = f16::from_f32(1.0).to_ne_bytes();
    assert!(are_close(DType::F16, &f16::from_f32(1.01).to_ne_bytes(), &one));
    assert!(!are_close(DType::F16, &f16::from_f32(1.03).to_ne_bytes(), &one));
    let one = bf16::from_f32(1.0).to_ne_bytes();
    assert!(are_close(DType::BF16, &bf16::from_f32(1.01).to_ne_bytes(), &one));
    assert!(!are_close(DType::BF16, &bf16::from_f32(1.1).to_ne_bytes(), &one));
}

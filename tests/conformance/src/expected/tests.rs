use super::*;

fn near(value: f64, tolerance: f64) -> Expected {
    Expected::Near { value, tolerance }
}

#[test]
fn nan_and_infinity_have_to_match() {
    let (nan, inf) = (Value::Float(f64::NAN), Value::Float(f64::INFINITY));
    assert!(near(f64::NAN, 1.0).accepts(DType::F32, nan));
    assert!(!near(f64::NAN, 1.0).accepts(DType::F32, Value::Float(0.0)));
    assert!(!near(0.0, 1e30).accepts(DType::F32, nan));
    assert!(near(f64::INFINITY, 0.0).accepts(DType::F32, inf));
    assert!(!near(f64::NEG_INFINITY, 1.0).accepts(DType::F32, inf));
    assert!(!near(1e38, 1e30).accepts(DType::F32, inf));
}

#[test]
fn overflow_is_judged_after_rounding() {
    let inf = Value::Float(f64::INFINITY);
    assert!(near(65530.0, 0.0).accepts(DType::F16, inf));
    assert!(!near(65504.0, 1.0).accepts(DType::F16, inf));
    assert!(near(65519.0, 2.0).accepts(DType::F16, inf));
    assert!(near(65519.0, 2.0).accepts(DType::F16, Value::Float(65504.0)));
}

#[test]
fn exact_means_the_sign_of_zero_too() {
    assert!(!Expected::Exact(Value::Float(0.0)).accepts(DType::F32, Value::Float(-0.0)));
    assert!(near(0.0, 0.0).accepts(DType::F32, Value::Float(-0.0)));
    assert!(!Expected::Exact(Value::Int(1)).accepts(DType::Bool, Value::Int(2)));
}

//! Choosing between elements, and limiting them.

use millstream_core::{DType, Scalar};

use super::scalar;
use crate::{Dense, Expected, Value, limits};

/// Condition, `a` and `b`, of one shape.
pub(super) fn choose([condition, a, b]: &[Dense; 3]) -> Vec<Expected> {
    let choose = |at: usize| if condition.values[at].as_i64() != 0 { a } else { b }.values[at];
    (0..condition.values.len()).map(|at| Expected::Exact(choose(at))).collect()
}

pub(super) fn clip(min: Option<Scalar>, max: Option<Scalar>, input: &Dense) -> Vec<Expected> {
    let limit = |limit: Option<Scalar>| limit.map(|limit| limit_of(limit, input.dtype));
    let (min, max) = (limit(min), limit(max));
    let below = |a: Value, b: Value| match (a, b) {
        (Value::Int(a), Value::Int(b)) => a < b,
        _ => a.as_f64() < b.as_f64(),
    };
    let clip = |&value: &Value| {
        let value = min.filter(|&min| below(value, min)).unwrap_or(value);
        Expected::Exact(max.filter(|&max| below(max, value)).unwrap_or(value))
    };
    input.values.iter().map(clip).collect()
}

/// Beyond the range of an integer type there is nothing to limit.
fn limit_of(limit: Scalar, dtype: DType) -> Value {
    if dtype.is_float() {
        return scalar(limit, dtype);
    }
    let (low, high) = limits(dtype);
    let value = match limit {
        Scalar::Int(value) => value.into(),
        Scalar::UInt(value) => value.into(),
        other => other.as_f64() as i128,
    };
    Value::Int(value.clamp(low.as_i128(), high.as_i128()))
}

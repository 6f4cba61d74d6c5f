//! Numbers in a row.

use millstream_core::{DType, IotaParams};

use super::scalar;
use crate::dense::places;
use crate::value::wrap;
use crate::{Expected, Value, round_to};

pub(super) fn apply(params: &IotaParams) -> Vec<Expected> {
    let (dtype, axis) = (params.spec.dtype(), usize::from(params.axis));
    // Numbers of 16 bits are computed in 32.
    let compute = match dtype {
        DType::F64 => DType::F64,
        _ if dtype.is_float() => DType::F32,
        _ => dtype,
    };
    let (start, step) = (scalar(params.start, compute), scalar(params.step, compute));
    let number = |index: usize| match (start, step) {
        (Value::Int(start), Value::Int(step)) => {
            let whole = start.wrapping_add(step.wrapping_mul(index as i128));
            Value::Int(wrap(dtype, whole))
        }
        _ => {
            let index = round_to(compute, index as f64);
            let product = round_to(compute, index * step.as_f64());
            Value::Float(round_to(compute, start.as_f64() + product))
        }
    };
    places(params.spec.shape()).iter().map(|place| Expected::Exact(number(place[axis]))).collect()
}

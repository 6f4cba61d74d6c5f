//! Writing by index.

use millstream_core::{DType, ScatterReduction};

use super::gather::{coordinate, tuple};
use crate::dense::{index, places};
use crate::value::wrap;
use crate::{Dense, Expected, Value, round_to};

pub(super) fn elements(
    axis: usize,
    reduction: ScatterReduction,
    input: &Dense,
    indices: &Dense,
    updates: &Dense,
) -> Vec<Expected> {
    let mut values = input.values.clone();
    for mut place in places(&updates.shape) {
        let update = updates.at(&place);
        place[axis] = coordinate(indices.at(&place), input.shape[axis]);
        let at = index(&input.shape, &place);
        values[at] = combine(reduction, input.dtype, values[at], update);
    }
    expected(reduction, values)
}

pub(super) fn tuples(
    reduction: ScatterReduction,
    input: &Dense,
    indices: &Dense,
    updates: &Dense,
) -> Vec<Expected> {
    let leading = indices.shape.len() - 1;
    let mut values = input.values.clone();
    for place in places(&updates.shape) {
        let (outer, inner) = place.split_at(leading);
        let target = [&tuple(0, &input.shape, indices, outer), inner].concat();
        let at = index(&input.shape, &target);
        values[at] = combine(reduction, input.dtype, values[at], updates.at(&place));
    }
    expected(reduction, values)
}

/// Each step is rounded to the element type, which for sums and products in a wider type is exact.
fn combine(reduction: ScatterReduction, dtype: DType, old: Value, new: Value) -> Value {
    use ScatterReduction::{Add, Max, Min, Multiply, Replace};
    match (old, new) {
        _ if reduction == Replace => new,
        (Value::Int(old), Value::Int(new)) => Value::Int(match reduction {
            Add => wrap(dtype, old.wrapping_add(new)),
            Multiply => wrap(dtype, old.wrapping_mul(new)),
            Max => old.max(new),
            Min | Replace => old.min(new),
        }),
        _ => {
            let (old, new) = (old.as_f64(), new.as_f64());
            Value::Float(match reduction {
                Add => round_to(dtype, old + new),
                Multiply => round_to(dtype, old * new),
                _ if old.is_nan() || new.is_nan() => f64::NAN,
                Max => old.max(new),
                Min | Replace => old.min(new),
            })
        }
    }
}

fn expected(reduction: ScatterReduction, values: Vec<Value>) -> Vec<Expected> {
    let extreme = matches!(reduction, ScatterReduction::Max | ScatterReduction::Min);
    let expected = |value: Value| match value {
        // Of two zeros either is the larger.
        Value::Float(0.0) if extreme => Expected::Near { value: 0.0, tolerance: 0.0 },
        value => Expected::Exact(value),
    };
    values.into_iter().map(expected).collect()
}

//! Reductions.

use millstream_core::{Axes, DType, ReduceOp};

use super::near;
use crate::dense::walk;
use crate::value::wrap;
use crate::{Dense, Expected, Value, accuracy, limits};

pub(super) fn apply(op: ReduceOp, axes: Axes, input: &Dense) -> Vec<Expected> {
    let groups = groups(axes, input);
    groups
        .iter()
        .map(|group| match op {
            _ if op.is_index() => Expected::Exact(Value::Int(extreme(op, group) as i128)),
            _ if input.dtype.is_float() => float(
                op,
                input.dtype,
                &group.iter().map(|value| value.as_f64()).collect::<Vec<_>>(),
            ),
            ReduceOp::LogSumExp => whole_log_sum_exp(input.dtype, group),
            _ => Expected::Exact(Value::Int(integer(op, input.dtype, group))),
        })
        .collect()
}

/// For each element of the output, the elements that it combines, in order.
fn groups(axes: Axes, input: &Dense) -> Vec<Vec<Value>> {
    let rank = input.shape.len();
    let mut strides = vec![0; rank];
    let mut count = 1;
    for axis in (0..rank).rev().filter(|&axis| !axes.contains(axis)) {
        strides[axis] = count;
        count *= input.shape[axis];
    }
    let mut groups = vec![Vec::new(); count];
    for (group, value) in walk(&input.shape, &strides, 0).into_iter().zip(&input.values) {
        groups[group].push(*value);
    }
    groups
}

/// The index of the first, or last, largest or smallest element. NaN goes before every number.
fn extreme(op: ReduceOp, group: &[Value]) -> usize {
    let largest = matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMaxLast);
    let last = matches!(op, ReduceOp::ArgMaxLast | ReduceOp::ArgMinLast);
    let beats = |new: Value, old: Value| match (new, old) {
        (Value::Int(new), Value::Int(old)) if largest => new > old,
        (Value::Int(new), Value::Int(old)) => new < old,
        _ if old.as_f64().is_nan() => false,
        _ if new.as_f64().is_nan() => true,
        _ if largest => new.as_f64() > old.as_f64(),
        _ => new.as_f64() < old.as_f64(),
    };
    let mut best = 0;
    for at in 1..group.len() {
        if beats(group[at], group[best]) || last && !beats(group[best], group[at]) {
            best = at;
        }
    }
    best
}

fn integer(op: ReduceOp, dtype: DType, group: &[Value]) -> i128 {
    let values = group.iter().map(|value| value.as_i128());
    let result = match op {
        ReduceOp::Sum => values.fold(0, i128::wrapping_add),
        ReduceOp::Prod => values.fold(1, i128::wrapping_mul),
        ReduceOp::L1 => values.map(i128::wrapping_abs).fold(0, i128::wrapping_add),
        ReduceOp::Max => return values.max().unwrap_or(limits(dtype).0.as_i128()),
        ReduceOp::Min => return values.min().unwrap_or(limits(dtype).1.as_i128()),
        ReduceOp::Mean => {
            // The sum has 64 bits.
            let sum = values.fold(0, i128::wrapping_add);
            let wide = if limits(dtype).0.as_i128() < 0 { DType::I64 } else { DType::U64 };
            wrap(wide, sum) / group.len() as i128
        }
        ReduceOp::L2 => {
            let square = |value: i128| value.unsigned_abs().pow(2);
            let root = values.map(square).fold(0, u128::saturating_add).isqrt();
            return root.min(limits(dtype).1.as_i128() as u128) as i128;
        }
        other => panic!("{other:?} of integers has no meaning"),
    };
    wrap(dtype, result)
}

/// The fraction is cut off, so where it is next to nothing either side will do.
fn whole_log_sum_exp(dtype: DType, group: &[Value]) -> Expected {
    let (lowest, highest) = (limits(dtype).0.as_i128(), limits(dtype).1.as_i128());
    let Some(top) = group.iter().map(|value| value.as_i128()).max() else {
        return Expected::Exact(Value::Int(lowest));
    };
    let below = |value: &Value| (value.as_i128() - top) as f64;
    let more = group.iter().map(|value| below(value).exp()).sum::<f64>().ln();
    let error = accuracy::sum(DType::F32, group.len(), 1.0);
    let cut = |more: f64| {
        let down = top + more.floor() as i128;
        let result = if down >= 0 { down } else { top + more.ceil() as i128 };
        result.min(highest)
    };
    let (low, high) = (cut((more - error).max(0.0)), cut(more + error));
    match low == high {
        true => Expected::Exact(Value::Int(low)),
        false => Expected::Between { low: low as f64, high: high as f64 },
    }
}

fn float(op: ReduceOp, dtype: DType, group: &[f64]) -> Expected {
    let (count, n) = (group.len(), group.len() as f64);
    let total: f64 = group.iter().sum();
    let magnitude: f64 = group.iter().map(|value| value.abs()).sum();
    let largest = group.iter().fold(f64::NEG_INFINITY, |best, &value| larger(best, value));
    match op {
        ReduceOp::Sum => near(total, accuracy::sum(dtype, count, magnitude)),
        ReduceOp::Mean => near(total / n, accuracy::sum(dtype, count, magnitude / n)),
        ReduceOp::L1 => near(magnitude, accuracy::sum(dtype, count, magnitude)),
        ReduceOp::L2 => {
            let root = group.iter().map(|value| value * value).sum::<f64>().sqrt();
            near(root, accuracy::sum(dtype, count, root))
        }
        ReduceOp::Prod => {
            let product = group.iter().product::<f64>();
            near(product, accuracy::product(dtype, count, product))
        }
        ReduceOp::Max => near(largest, 0.0),
        ReduceOp::Min => {
            near(-group.iter().fold(f64::NEG_INFINITY, |best, &value| larger(best, -value)), 0.0)
        }
        ReduceOp::LogSumExp => {
            let value = log_sum_exp(group);
            let rounding = accuracy::unit(dtype) * 4.0 * (largest.abs() + value.abs());
            near(value, accuracy::sum(dtype, count, 1.0) + rounding)
        }
        ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::ArgMaxLast | ReduceOp::ArgMinLast => {
            unreachable!("gives an index")
        }
    }
}

/// The larger of two, NaN if there is one.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// The logarithm of the sum of exponentials; -∞ of nothing.
pub(super) fn log_sum_exp(group: &[f64]) -> f64 {
    let largest = group.iter().fold(f64::NEG_INFINITY, |best, &value| larger(best, value));
    if !largest.is_finite() {
        return largest;
    }
    largest + group.iter().map(|value| (value - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests;

//! Pooling.

use millstream_core::{PoolKind, PoolOrder, PoolParams};

use super::near;
use crate::dense::{index, places};
use crate::{Dense, Expected, Value, accuracy};

/// The expected elements, then the expected indices if they are asked for.
pub(super) fn apply(params: &PoolParams, shape: &[usize], input: &Dense) -> Vec<Expected> {
    let spatial = usize::from(params.spatial);
    let sizes = &input.shape[2..];
    let kernel: Vec<usize> = params.kernel[..spatial].iter().map(|&size| size as usize).collect();
    let taps = places(&kernel);
    let (mut values, mut found) = (Vec::new(), Vec::new());
    for place in places(shape) {
        let mut window: Vec<(Value, usize)> = Vec::new();
        let mut counted = 0;
        for tap in &taps {
            let at: Vec<i64> = (0..spatial)
                .map(|axis| {
                    (place[axis + 2] * params.stride[axis] as usize
                        + tap[axis] * params.dilation[axis] as usize) as i64
                        - i64::from(params.pad_before[axis])
                })
                .collect();
            let below = |axis: usize, more: i64| at[axis] < sizes[axis] as i64 + more;
            counted +=
                usize::from((0..spatial).all(|axis| below(axis, params.pad_after[axis].into())));
            if (0..spatial).all(|axis| at[axis] >= 0 && below(axis, 0)) {
                let at: Vec<usize> = at.iter().map(|&at| at as usize).collect();
                let value = input.at(&[&place[..2], &at].concat());
                window.push((value, index(sizes, &at)));
            }
        }
        match params.kind {
            PoolKind::Max => {
                let (value, at) = window
                    .iter()
                    .skip(1)
                    .fold(window[0], |best, &new| if beats(new.0, best.0) { new } else { best });
                // Of two zeros either is the larger.
                values.push(match value {
                    Value::Float(value) => near(value, 0.0),
                    value => Expected::Exact(value),
                });
                let plane = index(&input.shape[..2], &place[..2]) * sizes.iter().product::<usize>();
                let at = match params.order {
                    PoolOrder::Channel => at,
                    PoolOrder::Whole => plane + at,
                    PoolOrder::WholeByColumns => plane + by_columns(sizes, at),
                };
                found.push(Expected::Exact(Value::Int(at as i128)));
            }
            PoolKind::Average { include_padding } => {
                let count = if include_padding { counted } else { window.len() } as f64;
                let sum: f64 = window.iter().map(|(value, _)| value.as_f64()).sum();
                let magnitude: f64 = window.iter().map(|(value, _)| value.as_f64().abs()).sum();
                let bound = accuracy::sum(input.dtype, window.len(), magnitude / count);
                values.push(near(sum / count, bound));
            }
        }
    }
    if params.indices {
        values.extend(found);
    }
    values
}

/// The index in a plane whose first axis is the fastest.
fn by_columns(sizes: &[usize], at: usize) -> usize {
    let place = &places(sizes)[at];
    let reversed = |list: &[usize]| list.iter().rev().copied().collect::<Vec<_>>();
    index(&reversed(sizes), &reversed(place))
}

/// Whether a later element counts instead. NaN is the largest number.
fn beats(new: Value, old: Value) -> bool {
    match (new, old) {
        (Value::Int(new), Value::Int(old)) => new > old,
        _ if old.as_f64().is_nan() => false,
        _ => new.as_f64().is_nan() || new.as_f64() > old.as_f64(),
    }
}

//! The largest and smallest elements along an axis.

use std::cmp::Ordering;

use crate::dense::{index, places};
use crate::{Dense, Expected, Value};

/// The expected values, then the expected indices.
pub(super) fn apply(
    axis: usize,
    count: usize,
    largest: bool,
    sorted: bool,
    input: &Dense,
) -> Vec<Expected> {
    let mut shape = input.shape.clone();
    shape[axis] = count;
    let total: usize = shape.iter().product();
    let mut expected = vec![Expected::Any; 2 * total];
    for mut place in places(&shape).into_iter().filter(|place| place[axis] == 0) {
        let mut row: Vec<(Value, usize)> = (0..input.shape[axis])
            .map(|at| {
                place[axis] = at;
                (input.at(&place), at)
            })
            .collect();
        // A stable sort keeps the lower index first among equals.
        row.sort_by(|a, b| {
            let rising = compare(a.0, b.0);
            if largest { rising.reverse() } else { rising }
        });
        row.truncate(count);
        if !sorted {
            row.sort_by_key(|&(_, at)| at);
        }
        for (to, (value, at)) in row.into_iter().enumerate() {
            place[axis] = to;
            let to = index(&shape, &place);
            expected[to] = Expected::Exact(value);
            expected[total + to] = Expected::Exact(Value::Int(at as i128));
        }
    }
    expected
}

/// The order of numbers, with NaN above all of them and equal to itself.
pub(super) fn compare(a: Value, b: Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(&b),
        _ => {
            let (a, b) = (a.as_f64(), b.as_f64());
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
    }
}

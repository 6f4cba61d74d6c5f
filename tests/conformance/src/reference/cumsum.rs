//! Running sums and products.

use super::near;
use crate::dense::{index, places};
use crate::value::wrap;
use crate::{Dense, Expected, Value, accuracy};

pub(super) fn apply(
    axis: usize,
    [exclusive, reverse, product]: [bool; 3],
    input: &Dense,
) -> Vec<Expected> {
    let size = input.shape[axis];
    let mut expected = vec![Expected::Any; input.values.len()];
    for mut place in places(&input.shape).into_iter().filter(|place| place[axis] == 0) {
        let (mut sum, mut magnitude, mut whole) =
            if product { (1.0, 0.0, 1i128) } else { (0.0, 0.0, 0) };
        for step in 0..size {
            place[axis] = if reverse { size - 1 - step } else { step };
            let at = index(&input.shape, &place);
            let before = (sum, magnitude, whole, step);
            match input.values[at] {
                Value::Float(value) if product => sum *= value,
                Value::Int(value) if product => whole = whole.wrapping_mul(value),
                Value::Float(value) => {
                    sum += value;
                    magnitude += value.abs();
                }
                Value::Int(value) => whole = whole.wrapping_add(value),
            }
            let (sum, magnitude, whole, count) =
                if exclusive { before } else { (sum, magnitude, whole, step + 1) };
            expected[at] = if input.dtype.is_float() {
                let bound = match product {
                    true => accuracy::product(input.dtype, count, sum),
                    false => accuracy::sum(input.dtype, count, magnitude),
                };
                near(sum, bound)
            } else {
                Expected::Exact(Value::Int(wrap(input.dtype, whole)))
            };
        }
    }
    expected
}

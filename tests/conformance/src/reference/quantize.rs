//! Quantization and products of integers.

use millstream_core::DType;

use super::conv::spread;
use super::near;
use crate::accuracy::{smallest, unit};
use crate::value::{limits, round_to, wrap};
use crate::{Dense, Expected, Value};

/// `inputs` are the source, the scale and perhaps the zero point.
pub(super) fn apply(
    (axis, block): (Option<usize>, Option<u32>),
    back: bool,
    inputs: &[Dense],
    dtype: DType,
) -> Vec<Expected> {
    let src = &inputs[0];
    let wide = |parameter: &Dense| match (axis, block) {
        (Some(axis), Some(block)) => repeat(parameter, &src.shape, axis, block as usize),
        (Some(axis), None) => spread(parameter, &src.shape, axis),
        (None, _) => Dense { shape: vec![], ..parameter.clone() }.broadcast(&src.shape),
    };
    let scale = wide(&inputs[1]);
    let zero = inputs.get(2).map(wide);
    let element = |at: usize| {
        let scale = scale.values[at].as_f64();
        let zero = zero.as_ref().map_or(0, |zero| zero.values[at].as_i128());
        if back {
            let value = (src.values[at].as_i128() - zero) as f64 * scale;
            return near(value, 2.0 * unit(dtype) * value.abs() + smallest(dtype));
        }
        // The quotient of two `f32` by way of `f64` is rounded as if once.
        let computed = if src.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let quotient = round_to(computed, src.values[at].as_f64() / scale).round_ties_even();
        let (low, high) = (limits(dtype).0.as_i128(), limits(dtype).1.as_i128());
        let sum = (quotient as i128).saturating_add(zero);
        Expected::Exact(Value::Int(sum.clamp(low, high)))
    };
    (0..src.values.len()).map(element).collect()
}

/// Every number of a block once.
fn repeat(numbers: &Dense, shape: &[usize], axis: usize, block: usize) -> Dense {
    let inner: usize = shape[axis + 1..].iter().product();
    let (size, blocks) = (shape[axis], numbers.shape[axis]);
    let value = |at: usize| {
        let (outer, place, rest) = (at / (size * inner), at / inner % size, at % inner);
        numbers.values[(outer * blocks + place / block) * inner + rest]
    };
    let values = (0..shape.iter().product()).map(value).collect();
    Dense { shape: shape.to_vec(), values, ..numbers.clone() }
}

/// A vector that has one number for each row.
pub(super) fn upright(numbers: &Dense) -> Dense {
    let vector = numbers.shape.len() == 1;
    let shape = if vector { vec![numbers.shape[0], 1] } else { numbers.shape.clone() };
    Dense { shape, ..numbers.clone() }
}

/// `inputs` are both matrices and the zero points there are.
pub(super) fn product(
    shape: &[usize],
    inputs: &[Dense],
    a_zero: bool,
    b_zero: bool,
) -> Vec<Expected> {
    let rank = shape.len();
    let (m, n) = (shape[rank - 2], shape[rank - 1]);
    let k = inputs[0].shape[inputs[0].shape.len() - 1];
    let matrices = |rows, columns| [&shape[..rank - 2], &[rows, columns]].concat();
    let (a, b) = (inputs[0].broadcast(&matrices(m, k)), inputs[1].broadcast(&matrices(k, n)));
    let mut rest = inputs[2..].iter();
    let a_zero = a_zero.then(|| upright(rest.next().expect("zero")).broadcast(&matrices(m, k)));
    let b_zero = b_zero.then(|| rest.next().expect("zero").broadcast(&matrices(k, n)));
    let number = |matrix: &Dense, zero: &Option<Dense>, at: usize| {
        matrix.values[at].as_i128() - zero.as_ref().map_or(0, |zero| zero.values[at].as_i128())
    };
    let element = |place: usize| {
        let (row, column) = (place / n, place % n);
        let total: i128 = (0..k)
            .map(|at| {
                let right = (row / m * k + at) * n + column;
                number(&a, &a_zero, row * k + at) * number(&b, &b_zero, right)
            })
            .sum();
        Expected::Exact(Value::Int(wrap(DType::I32, total)))
    };
    (0..shape.iter().product()).map(element).collect()
}

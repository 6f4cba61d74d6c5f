//! Normalization by the root of the mean square, and of groups of channels.

use super::{layer_norm, near};
use crate::accuracy::{smallest, unit};
use crate::{Dense, Expected};

pub(super) fn rms(
    axes: usize,
    epsilon: f64,
    input: &Dense,
    weight: Option<&Dense>,
) -> Vec<Expected> {
    let normalized = &input.shape[input.shape.len() - axes..];
    let size: usize = normalized.iter().product();
    let weight = weight.map(|weight| weight.broadcast(normalized));
    let unit = unit(input.dtype);
    let mut expected = Vec::with_capacity(input.values.len());
    for row in input.values.chunks(size.max(1)) {
        let row: Vec<f64> = row.iter().map(|value| value.as_f64()).collect();
        let n = row.len() as f64;
        let square = row.iter().map(|x| x * x).sum::<f64>() / n;
        let inverse = 1.0 / (square + epsilon).sqrt();
        for (at, x) in row.iter().enumerate() {
            let value =
                x * inverse * weight.as_ref().map_or(1.0, |weight| weight.values[at].as_f64());
            let error = (8.0 + n.sqrt()) * unit * value.abs();
            expected.push(near(value, error + smallest(input.dtype)));
        }
    }
    expected
}

/// Layer normalization of each group, with the parameters of a channel repeated along it.
pub(super) fn group(
    groups: usize,
    epsilon: f64,
    input: &Dense,
    weight: Option<&Dense>,
    bias: Option<&Dense>,
) -> Vec<Expected> {
    let channels = input.shape[1] / groups;
    let behind: usize = input.shape[2..].iter().product();
    let size = channels * behind;
    if input.values.is_empty() {
        return Vec::new();
    }
    let along = |parameter: Option<&Dense>, group: usize| {
        parameter.map(|parameter| Dense {
            dtype: parameter.dtype,
            shape: vec![size],
            values: (0..size)
                .map(|at| parameter.values[group % groups * channels + at / behind])
                .collect(),
        })
    };
    let mut expected = Vec::with_capacity(input.values.len());
    for (group, values) in input.values.chunks(size).enumerate() {
        let row = Dense { dtype: input.dtype, shape: vec![size], values: values.to_vec() };
        let (weight, bias) = (along(weight, group), along(bias, group));
        expected.extend(layer_norm::apply(1, epsilon, &row, weight.as_ref(), bias.as_ref()));
    }
    expected
}

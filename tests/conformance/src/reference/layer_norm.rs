//! Layer normalization.

use super::near;
use crate::accuracy::{smallest, unit};
use crate::{Dense, Expected};

pub(super) fn apply(
    axes: usize,
    epsilon: f64,
    input: &Dense,
    weight: Option<&Dense>,
    bias: Option<&Dense>,
) -> Vec<Expected> {
    let normalized = &input.shape[input.shape.len() - axes..];
    let size: usize = normalized.iter().product();
    let [weight, bias] =
        [weight, bias].map(|parameter| parameter.map(|values| values.broadcast(normalized)));
    let unit = unit(input.dtype);
    let parameter = |parameter: &Option<Dense>, at: usize, absent: f64| {
        parameter.as_ref().map_or(absent, |values| values.values[at].as_f64())
    };
    let mut expected = Vec::with_capacity(input.values.len());
    for row in input.values.chunks(size.max(1)) {
        let row: Vec<f64> = row.iter().map(|value| value.as_f64()).collect();
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let inverse = 1.0 / (variance + epsilon).sqrt();

        // The mean is off by a few roundings of the magnitudes, and so is every distance from it. The
        // variance is off by the square of that: subtracting the squared mean is not good enough.
        let reach = (8.0 + 2.0 * n.sqrt()) * unit;
        let magnitude = row.iter().map(|x| x.abs()).sum::<f64>() / n;
        let mean_error = reach * magnitude;
        let variance_error = reach * variance + mean_error * mean_error;
        let inverse_error = variance_error / (2.0 * (variance + epsilon)) + 4.0 * unit;

        for (at, x) in row.iter().enumerate() {
            let (weight, bias) = (parameter(&weight, at, 1.0), parameter(&bias, at, 0.0));
            let scaled = (x - mean) * inverse * weight;
            let value = scaled + bias;
            let distance_error =
                (mean_error + 2.0 * unit * (x - mean).abs()) * inverse * weight.abs();
            let rounding = 4.0 * unit * (scaled.abs() + bias.abs());
            let error = distance_error + scaled.abs() * inverse_error + rounding;
            expected.push(near(value, error + smallest(input.dtype)));
        }
    }
    expected
}

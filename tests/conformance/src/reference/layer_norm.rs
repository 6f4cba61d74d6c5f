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
        let Moments { mean, mean_error, inverse, inverse_error } = Moments::of(&row, epsilon, unit);
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

/// The means of all rows, then the inverses of their standard deviations.
pub(super) fn moments(axes: usize, epsilon: f64, input: &Dense) -> Vec<Expected> {
    let (kept, normalized) = input.shape.split_at(input.shape.len() - axes);
    let (rows, size): (usize, usize) = (kept.iter().product(), normalized.iter().product());
    let unit = unit(input.dtype);
    let row = |row: usize| {
        let values = &input.values[row * size..][..size];
        let values: Vec<f64> = values.iter().map(|value| value.as_f64()).collect();
        Moments::of(&values, epsilon, unit)
    };
    let moments: Vec<Moments> = (0..rows).map(row).collect();
    let mean = |row: &Moments| near(row.mean, row.mean_error + smallest(input.dtype));
    let inverse = |row: &Moments| near(row.inverse, row.inverse_error * row.inverse);
    moments.iter().map(mean).chain(moments.iter().map(inverse)).collect()
}

struct Moments {
    mean: f64,
    mean_error: f64,
    inverse: f64,
    /// Relative to the inverse.
    inverse_error: f64,
}

impl Moments {
    fn of(row: &[f64], epsilon: f64, unit: f64) -> Self {
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
        Self { mean, mean_error, inverse, inverse_error }
    }
}

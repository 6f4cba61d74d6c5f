//! What is made of exact sums of integers.

use millstream_core::{DType, Rescale};

use super::activate;
use super::conv::spread;
use super::quantize::upright;
use crate::accuracy::{smallest, unit};
use crate::value::{limits, wrap};
use crate::{Dense, Expected, Value};

/// `inputs` are the scales and what follows them.
pub(super) fn of_product(
    rescale: &Rescale,
    shape: &[usize],
    sums: &[Expected],
    inputs: &[Dense],
) -> Vec<Expected> {
    let scales = [upright(&inputs[0]).broadcast(shape), inputs[1].broadcast(shape)];
    let bias = rescale.bias.then(|| inputs[2].broadcast(shape));
    apply(rescale, shape, sums, &scales, bias, &inputs[2 + usize::from(rescale.bias)..])
}

/// The same of a convolution.
pub(super) fn of_conv(
    rescale: &Rescale,
    shape: &[usize],
    sums: &[Expected],
    inputs: &[Dense],
) -> Vec<Expected> {
    let one = Dense { shape: vec![], ..inputs[0].clone() };
    let channels = inputs[1].broadcast(&shape[1..2]);
    let scales = [one.broadcast(shape), spread(&channels, shape, 1)];
    let bias = rescale.bias.then(|| spread(&inputs[2], shape, 1));
    apply(rescale, shape, sums, &scales, bias, &inputs[2 + usize::from(rescale.bias)..])
}

/// `rest` are the residual, the scale and the zero point of the output, as far as they are given.
fn apply(
    rescale: &Rescale,
    shape: &[usize],
    sums: &[Expected],
    scales: &[Dense; 2],
    bias: Option<Dense>,
    rest: &[Dense],
) -> Vec<Expected> {
    let mut rest = rest.iter();
    let residual = rescale.residual.then(|| rest.next().expect("residual").broadcast(shape));
    let scale = rest.next().map_or(1.0, |scale| scale.values[0].as_f64());
    let zero = rest.next().map_or(0, |zero| zero.values[0].as_i64());
    let element = |(at, sum): (usize, &Expected)| {
        let Expected::Exact(Value::Int(mut sum)) = *sum else { unreachable!("sums are exact") };
        let mut added = Vec::new();
        match &bias {
            Some(bias) if bias.dtype == DType::I32 => {
                sum = wrap(DType::I32, sum + bias.values[at].as_i128());
            }
            Some(bias) => added.push(bias.values[at].as_f64()),
            None => {}
        }
        added.extend(residual.iter().map(|residual| residual.values[at].as_f64()));
        let product = scales[0].values[at].as_f64() * scales[1].values[at].as_f64() * sum as f64;
        let value = product + added.iter().sum::<f64>();
        let around = product.abs() + added.iter().map(|number| number.abs()).sum::<f64>();
        let error = 6.0 * unit(DType::F32) * around + smallest(DType::F32);
        if !rescale.is_byte() {
            return activate(rescale.activation, rescale.dtype, value, error);
        }
        let near = activate(rescale.activation, DType::F32, value, error);
        let Expected::Near { value, tolerance } = near else { unreachable!("a number") };
        // The quotient is rounded once more.
        let reach = tolerance + 2.0 * unit(DType::F32) * value.abs();
        let (low, high) = (limits(rescale.dtype).0.as_i64(), limits(rescale.dtype).1.as_i64());
        let whole = |value: f64| {
            let quotient = (value / scale).round_ties_even() as i64;
            quotient.saturating_add(zero).clamp(low, high) as f64
        };
        Expected::Between { low: whole(value - reach), high: whole(value + reach) }
    };
    sums.iter().enumerate().map(element).collect()
}

//! Windows for Fourier transforms, and weights for their bins.

use std::f64::consts::PI;

use millstream_core::{DType, Scalar};
use millstream_graph::{Array, Expanded};

use super::common::{Made, one, refusal, refuse, size, vector};
use crate::Result;
use crate::dtypes::dtype;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

/// The most elements of a matrix of weights.
const MAX_WEIGHTS: usize = 1 << 28;

pub(crate) const TABLE: Table = &[
    ("BlackmanWindow", |node| window(node, |x| 0.42 - 0.5 * x.cos() + 0.08 * (2.0 * x).cos())),
    ("HammingWindow", |node| window(node, |x| 25.0 / 46.0 - 21.0 / 46.0 * x.cos())),
    ("HannWindow", |node| window(node, |x| 0.5 - 0.5 * x.cos())),
    ("MelWeightMatrix", mel_weight_matrix),
];

fn output_type(node: &NodeDef<'_, '_>) -> Result<DType> {
    dtype(node.attributes.int_or("output_datatype", 1)? as i32).map_err(refusal)
}

/// A function of the angle at each place of a full turn.
fn window(node: &mut NodeDef<'_, '_>, of: fn(f64) -> f64) -> Made {
    let dtype = output_type(node)?;
    let periodic = node.attributes.flag("periodic", true)?;
    operator(node, move |at, inputs| {
        let count = size(at.scalar(inputs.tensor(0)?)?.as_i64())?;
        if count > MAX_WEIGHTS {
            return refuse(format!("a window of {count} elements"));
        }
        let steps = if periodic { count } else { count.saturating_sub(1) }.max(1) as f64;
        let values: Vec<f64> =
            (0..count).map(|place| of(2.0 * PI * place as f64 / steps)).collect();
        one(vector(at, &values, dtype)?)
    })
}

fn mel_weight_matrix(node: &mut NodeDef<'_, '_>) -> Made {
    let dtype = output_type(node)?;
    operator(node, move |at, inputs| {
        let number =
            |index: usize| -> Expanded<f64> { Ok(at.scalar(inputs.tensor(index)?)?.as_f64()) };
        let (bins, length, rate) = (number(0)?, number(1)?, number(2)?);
        let (lowest, highest) = (number(3)?, number(4)?);
        let (bins, rows) = (size(bins as i64)?, size(length as i64)? / 2 + 1);
        if bins.saturating_mul(rows) > MAX_WEIGHTS {
            return refuse(format!("{rows} by {bins} weights"));
        }
        let weights = triangles(bins, rows, length, rate, [lowest, highest])?;
        let weights: Vec<Scalar> = weights.into_iter().map(Scalar::Float).collect();
        one(at.constant(Array::of_scalars(dtype, &[rows, bins], &weights)?))
    })
}

/// One triangle for each mel bin, over the bins of a spectrum.
fn triangles(
    bins: usize,
    rows: usize,
    length: f64,
    rate: f64,
    edges: [f64; 2],
) -> Expanded<Vec<f64>> {
    let [low, high] = edges.map(|hertz| 2595.0 * (1.0 + hertz / 700.0).log10());
    let step = (high - low) / (bins + 2) as f64;
    let corner = |place: usize| -> usize {
        let hertz = 700.0 * (10f64.powf((place as f64 * step + low) / 2595.0) - 1.0);
        ((length + 1.0) * hertz / rate).floor().max(0.0) as usize
    };
    let mut weights = vec![0.0; rows * bins];
    for bin in 0..bins {
        let [first, middle, last] = [corner(bin), corner(bin + 1), corner(bin + 2)];
        if last > rows || middle >= rows {
            return refuse("the highest frequency is beyond the spectrum");
        }
        if first == middle {
            weights[middle * bins + bin] = 1.0;
        } else {
            for row in first..=middle {
                weights[row * bins + bin] = (row - first) as f64 / (middle - first) as f64;
            }
        }
        for row in middle..last {
            weights[row * bins + bin] = (last - row) as f64 / (last - middle) as f64;
        }
    }
    Ok(weights)
}

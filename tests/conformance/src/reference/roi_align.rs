//! Regions of interest. Coordinates are those of `f32`, since they decide what is outside.

use millstream_core::{RoiAlignParams, RoiMode};

use super::near;
use crate::dense::places;
use crate::{Dense, Expected, Value, accuracy};

pub(super) fn apply(
    params: RoiAlignParams,
    shape: &[usize],
    [src, rois, batches]: [&Dense; 3],
) -> Vec<Expected> {
    let element = |place: &Vec<usize>| {
        let corner = |k| rois.at(&[place[0], k]).as_f64() as f32;
        let rows = samples(params, 0, [corner(1), corner(3)], place[2], src.shape[2]);
        let columns = samples(params, 1, [corner(0), corner(2)], place[3], src.shape[3]);
        let batch = batches.at(&place[..1]).as_i64() as usize;
        let mut terms = Vec::new();
        for row in &rows {
            for column in &columns {
                let (Some(row), Some(column)) = (row, column) else {
                    terms.push(0.0);
                    continue;
                };
                for (y, height) in row {
                    for (x, width) in column {
                        let value = src.at(&[batch, place[1], *y, *x]).as_f64();
                        let weight = height * width;
                        terms.push(if weight == 0.0 { 0.0 } else { weight * value });
                    }
                }
            }
        }
        if terms.is_empty() {
            return Expected::Exact(Value::Float(0.0));
        }
        match params.mode {
            RoiMode::Mean => {
                let count = (rows.len() * columns.len()) as f64;
                let around: f64 = terms.iter().map(|term| term.abs()).sum();
                let total: f64 = terms.iter().sum();
                near(total / count, accuracy::sum(src.dtype, terms.len() + 16, around) / count)
            }
            RoiMode::Max => {
                let most = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                near(most, accuracy::product(src.dtype, 4, most))
            }
        }
    };
    places(shape).iter().map(element).collect()
}

/// An element and what it counts, on both sides of a sample that is not outside.
type Sample = Option<[(usize, f64); 2]>;

fn samples(
    params: RoiAlignParams,
    axis: usize,
    [first, last]: [f32; 2],
    output: usize,
    size: usize,
) -> Vec<Sample> {
    let shift = if params.half_pixel { 0.5 } else { 0.0 };
    let start = first * params.scale - shift;
    let mut length = last * params.scale - shift - start;
    if length < 1.0 && !params.half_pixel {
        length = 1.0;
    }
    let bin = length / params.size[axis] as f32;
    let count = match params.samples {
        0 => bin.ceil().clamp(0.0, 65536.0),
        fixed => fixed as f32,
    };
    let sample = |at: usize| {
        let place = start + output as f32 * bin + (at as f32 + 0.5) * bin / count;
        if place.is_nan() || place < -1.0 || place > size as f32 {
            return None;
        }
        let place = f64::from(place).clamp(0.0, (size - 1) as f64);
        let (low, part) = (place.floor(), place - place.floor());
        let high = (low as usize + 1).min(size - 1);
        Some([(low as usize, 1.0 - part), (high, part)])
    };
    // No number is no samples.
    (0..count as usize).map(sample).collect()
}

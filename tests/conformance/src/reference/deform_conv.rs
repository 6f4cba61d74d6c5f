//! Convolutions whose taps are moved by data. Places are those of `f32`.

use millstream_core::DeformConvParams;

use super::near;
use crate::dense::places;
use crate::{Dense, Expected, accuracy};

pub(super) fn apply(params: &DeformConvParams, shape: &[usize], inputs: &[Dense]) -> Vec<Expected> {
    let (src, weight, offset) = (&inputs[0], &inputs[1], &inputs[2]);
    let mut rest = inputs[3..].iter();
    let bias = params.bias.then(|| rest.next().expect("bias"));
    let mask = params.mask.then(|| rest.next().expect("mask"));
    let conv = &params.conv;
    let channels = weight.shape[1];
    let element = |place: &Vec<usize>| {
        let (batch, output, out) = (place[0], place[1], [place[2], place[3]]);
        let first = output / (shape[1] / conv.groups as usize) * channels;
        let start = bias.map_or(0.0, |bias| bias.values[output].as_f64());
        let (mut total, mut around, mut terms) = (start, start.abs(), 1);
        for tap in places(&weight.shape[1..]) {
            let (channel, tap_y, tap_x) = (first + tap[0], tap[1], tap[2]);
            let group = channel / (src.shape[1] / params.offset_groups as usize);
            let moved = (group * weight.shape[2] + tap_y) * weight.shape[3] + tap_x;
            let at = |axis: usize, tap: usize| {
                let start = out[axis] as i64 * i64::from(conv.stride[axis])
                    + tap as i64 * i64::from(conv.dilation[axis])
                    - i64::from(conv.pad_before[axis]);
                let by = offset.at(&[batch, 2 * moved + axis, out[0], out[1]]).as_f64();
                start as f32 + by as f32
            };
            let mut factor = weight.at(&[output, tap[0], tap_y, tap_x]).as_f64();
            if let Some(mask) = mask {
                factor *= mask.at(&[batch, moved, out[0], out[1]]).as_f64();
            }
            for (y, by_y) in around_place(at(0, tap_y), src.shape[2]) {
                for &(x, by_x) in &around_place(at(1, tap_x), src.shape[3]) {
                    let term = factor * by_y * by_x * src.at(&[batch, channel, y, x]).as_f64();
                    total += term;
                    around += term.abs();
                    terms += 1;
                }
            }
        }
        near(total, accuracy::sum(src.dtype, terms, around))
    };
    places(shape).iter().map(element).collect()
}

/// The elements of an axis that are less than 1 from a place, and how near they are.
fn around_place(place: f32, size: usize) -> Vec<(usize, f64)> {
    let near = |index| (index, 1.0 - (f64::from(place) - index as f64).abs());
    (0..size).map(near).filter(|(_, share)| *share > 0.0).collect()
}

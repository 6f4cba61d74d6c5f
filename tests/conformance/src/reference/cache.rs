//! Caches, and positions in them.

use super::near;
use crate::accuracy::{smallest, sum, unit};
use crate::dense::{index, places};
use crate::{Dense, Expected};

/// Both modes are one: what goes on at the beginning of the axis fits everywhere.
pub(super) fn write(
    axis: usize,
    cache: &Dense,
    update: &Dense,
    positions: Option<&Dense>,
) -> Vec<Expected> {
    let mut values = cache.values.clone();
    for mut place in places(&update.shape) {
        let value = update.at(&place);
        let first = positions.map_or(0, |positions| positions.values[place[0]].as_i64());
        let longest = cache.shape[axis] as i128;
        place[axis] = (i128::from(first) + place[axis] as i128).rem_euclid(longest) as usize;
        values[index(&cache.shape, &place)] = value;
    }
    values.into_iter().map(Expected::Exact).collect()
}

/// `inputs` are source, cosines, sines and perhaps positions.
pub(super) fn rope(interleaved: bool, positions: bool, inputs: &[Dense]) -> Vec<Expected> {
    let [src, cos, sin] = [&inputs[0], &inputs[1], &inputs[2]];
    let pairs = cos.shape[cos.shape.len() - 1];
    let dtype = src.dtype;
    let rotated = |place: Vec<usize>| {
        let [batch, head, at, element] = [place[0], place[1], place[2], place[3]];
        let value = |element: usize| src.at(&[batch, head, at, element]).as_f64();
        if element >= 2 * pairs {
            return Expected::Exact(src.at(&place));
        }
        let (pair, is_second) = match interleaved {
            true => (element / 2, element % 2 == 1),
            false => (element % pairs, element >= pairs),
        };
        let (first, second) =
            if interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + pairs) };
        let row = match positions {
            true => vec![inputs[3].at(&[batch, at]).as_i64() as usize, pair],
            false => vec![batch, at, pair],
        };
        let (cos, sin) = (cos.at(&row).as_f64(), sin.at(&row).as_f64());
        let (x, y) = (value(first), value(second));
        let terms = if is_second { [y * cos, x * sin] } else { [x * cos, -y * sin] };
        let magnitude = terms[0].abs() + terms[1].abs();
        let bound = sum(dtype, 2, magnitude) + unit(dtype) * magnitude + smallest(dtype);
        near(terms[0] + terms[1], bound)
    };
    places(&src.shape).into_iter().map(rotated).collect()
}

//! Elements at places that a grid names. Coordinates are those of `f32`, since they decide what is near.

use millstream_core::{GridMode, GridPadding};

use super::near;
use crate::dense::places;
use crate::{Dense, Expected, Value, accuracy};

pub(super) fn apply(
    (mode, padding): (GridMode, GridPadding),
    align: bool,
    shape: &[usize],
    src: &Dense,
    grid: &Dense,
) -> Vec<Expected> {
    let spatial = shape.len() - 2;
    let element = |place: &Vec<usize>| {
        let mut point = [&place[..1], &place[2..], &[0]].concat();
        // Every tap is an index on each axis, or none outside, and a weight.
        let mut taps = vec![(place[..2].to_vec(), 1.0, true)];
        for axis in 0..spatial {
            *point.last_mut().expect("an axis of coordinates") = spatial - 1 - axis;
            let coordinate = grid.at(&point).as_f64() as f32;
            let along = along(mode, padding, align, coordinate, src.shape[axis + 2]);
            let more = |(place, weight, inside): &(Vec<usize>, f64, bool)| {
                let (place, weight, inside) = (place.clone(), *weight, *inside);
                let one = move |&(index, by): &(Option<usize>, f64)| {
                    let next = [&place[..], &[index.unwrap_or(0)]].concat();
                    (next, weight * by, inside && index.is_some())
                };
                along.iter().map(one).collect::<Vec<_>>()
            };
            taps = taps.iter().flat_map(more).collect();
        }
        let counted = taps.iter().filter(|(_, weight, inside)| *inside && *weight != 0.0);
        let values: Vec<(f64, f64)> =
            counted.map(|(place, weight, _)| (src.at(place).as_f64(), *weight)).collect();
        if mode == GridMode::Nearest {
            return Expected::Exact(Value::Float(values.first().map_or(0.0, |(value, _)| *value)));
        }
        let total: f64 = values.iter().map(|(value, weight)| value * weight).sum();
        let around: f64 = values.iter().map(|(value, _)| value.abs()).sum();
        near(total, accuracy::sum(src.dtype, values.len() + 16, around))
    };
    places(shape).iter().map(element).collect()
}

fn along(
    mode: GridMode,
    padding: GridPadding,
    align: bool,
    coordinate: f32,
    size: usize,
) -> Vec<(Option<usize>, f64)> {
    let length = size as f32;
    let (low, high) = if align { (0.0, length - 1.0) } else { (-0.5, length - 0.5) };
    let mut place = match align {
        true => (coordinate + 1.0) / 2.0 * (length - 1.0),
        false => ((coordinate + 1.0) * length - 1.0) / 2.0,
    };
    if place.is_nan() {
        place = f32::NEG_INFINITY;
    }
    place = place.clamp(-1e9, 1e9);
    if mode == GridMode::Nearest {
        place = place.round_ties_even();
    }
    if place < low || place > high {
        place = match padding {
            GridPadding::Zeros => place,
            GridPadding::Border if mode == GridMode::Cubic => place,
            GridPadding::Border => place.clamp(0.0, length - 1.0),
            GridPadding::Reflection => reflect(place, low, high),
        };
    }
    let index = |at: f32| match padding {
        _ if at >= 0.0 && at < length => Some(at as usize),
        GridPadding::Zeros => None,
        GridPadding::Border => Some(if at < 0.0 { 0 } else { size - 1 }),
        GridPadding::Reflection => Some((reflect(at, low, high) as usize).min(size - 1)),
    };
    if mode == GridMode::Nearest {
        return vec![(index(place), 1.0)];
    }
    let (first, part) = (place.floor(), f64::from(place - place.floor()));
    let offsets: &[i32] = if mode == GridMode::Linear { &[0, 1] } else { &[-1, 0, 1, 2] };
    let weight = |offset: i32| {
        let (distance, a) = ((part - f64::from(offset)).abs(), -0.75);
        match mode {
            GridMode::Nearest | GridMode::Linear => 1.0 - distance,
            GridMode::Cubic if distance <= 1.0 => {
                ((a + 2.0) * distance - (a + 3.0)) * distance * distance + 1.0
            }
            GridMode::Cubic => ((a * distance - 5.0 * a) * distance + 8.0 * a) * distance - 4.0 * a,
        }
    };
    offsets.iter().map(|&offset| (index(first + offset as f32), weight(offset))).collect()
}

/// Step by step, as the definition has it.
fn reflect(mut place: f32, low: f32, high: f32) -> f32 {
    let range = high - low;
    if range <= 0.0 {
        return low;
    }
    // Far away whole turns change nothing.
    let turn = 2.0 * range;
    if place < low {
        place = low - (low - place) % turn;
    } else {
        place = high + (place - high) % turn;
    }
    while place < low || place > high {
        place = if place < low { 2.0 * low - place } else { 2.0 * high - place };
    }
    place
}

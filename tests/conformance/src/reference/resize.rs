//! Interpolation.

use millstream_core::{CoordinateMode, DType, NearestRounding, ResizeMode, ResizeParams, Scalar};

use super::{near, scalar};
use crate::dense::places;
use crate::{Dense, Expected, accuracy, limits};

/// The elements along one axis that make an output, with their weights.
type Weights = Vec<(usize, f64)>;

pub(super) fn apply(params: &ResizeParams, shape: &[usize], input: &Dense) -> Vec<Expected> {
    let outside = scalar(Scalar::Float(params.extrapolation.into()), input.dtype);
    // For each axis and coordinate, the elements with their weights; none outside a crop.
    let weights: Vec<Vec<Option<Weights>>> = (0..shape.len())
        .map(|axis| {
            let weights = |x: usize| axis_weights(params, axis, x, input.shape[axis], shape[axis]);
            (0..shape[axis]).map(weights).collect()
        })
        .collect();
    let element = |place: &Vec<usize>| {
        let mut sources = vec![(Vec::new(), 1.0)];
        for (axis, &x) in place.iter().enumerate() {
            let Some(weights) = &weights[axis][x] else { return Expected::Exact(outside) };
            sources = sources
                .iter()
                .flat_map(|(at, product): &(Vec<usize>, f64)| {
                    let longer = |&(next, weight): &(usize, f64)| {
                        ([&at[..], &[next]].concat(), product * weight)
                    };
                    weights.iter().map(longer).collect::<Vec<_>>()
                })
                .collect();
        }
        if let ResizeMode::Nearest(_) = params.mode {
            return Expected::Exact(input.at(&sources[0].0));
        }
        let terms: Vec<f64> = sources.iter().map(|(at, w)| input.at(at).as_f64() * w).collect();
        let magnitude = terms.iter().map(|term| term.abs()).sum();
        let (sum, error) = (terms.iter().sum(), accuracy::sum(input.dtype, terms.len(), magnitude));
        if input.dtype.is_int() { whole(input.dtype, sum, error) } else { near(sum, error) }
    };
    places(shape).iter().map(element).collect()
}

/// What an integer type makes of a number that may be off by `error`.
fn whole(dtype: DType, sum: f64, error: f64) -> Expected {
    let limits = limits(dtype);
    let cut = |x: f64| {
        let nearest = x.round();
        let near = (x - nearest).abs() <= x.abs() / f64::from(1 << 20);
        let cut = if near { nearest } else { x.trunc() };
        cut.clamp(limits.0.as_f64(), limits.1.as_f64())
    };
    Expected::Between { low: cut(sum - error), high: cut(sum + error) }
}

/// The coordinate in the input of coordinate `x` in the output, which is defined in `f32`.
fn coordinate(params: &ResizeParams, axis: usize, x: f32, from: f32, to: f32) -> f64 {
    let scale = params.scales[axis] as f32;
    let (start, end) = params.region[axis];
    f64::from(match params.coordinates {
        CoordinateMode::Asymmetric => x / scale,
        CoordinateMode::PytorchHalfPixel | CoordinateMode::AlignCorners if to <= 1.0 => 0.0,
        CoordinateMode::AlignCorners => x * (from - 1.0) / (to - 1.0),
        CoordinateMode::AlignCornersByScale if from * scale <= 1.0 => 0.0,
        CoordinateMode::AlignCornersByScale => x * (from - 1.0) / (from * scale - 1.0),
        CoordinateMode::HalfPixel | CoordinateMode::PytorchHalfPixel => (x + 0.5) / scale - 0.5,
        CoordinateMode::HalfPixelSymmetric => {
            let offset = from / 2.0 * (1.0 - to / (scale * from));
            offset + (x + 0.5) / scale - 0.5
        }
        CoordinateMode::CropAndResize if to <= 1.0 => 0.5 * (start + end) * (from - 1.0),
        CoordinateMode::CropAndResize => {
            start * (from - 1.0) + x * (end - start) * (from - 1.0) / (to - 1.0)
        }
    })
}

fn axis_weights(
    params: &ResizeParams,
    axis: usize,
    x: usize,
    from: usize,
    to: usize,
) -> Option<Weights> {
    let crops = params.coordinates == CoordinateMode::CropAndResize;
    if from == to && params.scales[axis] == 1.0 && !crops {
        return Some(vec![(x, 1.0)]);
    }
    let at = coordinate(params, axis, x as f32, from as f32, to as f32);
    if crops && (at < 0.0 || at > from as f64 - 1.0) {
        return None;
    }
    let edge = |place: f64| place.clamp(0.0, from as f64 - 1.0) as usize;
    if let ResizeMode::Nearest(rounding) = params.mode {
        let (down, up) = (at.floor(), at.ceil());
        let place = match rounding {
            NearestRounding::Floor => down,
            NearestRounding::Ceil => up,
            NearestRounding::PreferFloor if at - down <= 0.5 => down,
            NearestRounding::PreferCeil if at - down < 0.5 => down,
            _ => up,
        };
        return Some(vec![(edge(place), 1.0)]);
    }
    let squeeze = if params.antialias { params.scales[axis].min(1.0) } else { 1.0 };
    let reach = (2.0 / squeeze).ceil() as i64 + 1;
    let mut weights = Weights::new();
    for step in -reach..=reach {
        let place = at.floor() + step as f64;
        let inside = place >= 0.0 && place <= from as f64 - 1.0;
        let weight = filter(params.mode, (place - at).abs() * squeeze);
        if weight != 0.0 && (inside || !params.exclude_outside) {
            weights.push((edge(place), weight));
        }
    }
    if weights.is_empty() {
        return Some(vec![(edge(at), 1.0)]);
    }
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let sum = if params.antialias || params.exclude_outside { sum } else { 1.0 };
    Some(weights.into_iter().map(|(place, weight)| (place, weight / sum)).collect())
}

/// The weight of an element at a distance from the coordinate.
fn filter(mode: ResizeMode, x: f64) -> f64 {
    match mode {
        ResizeMode::Cubic(a) => {
            let a = f64::from(a);
            let (x2, x3) = (x * x, x * x * x);
            if x <= 1.0 {
                (a + 2.0) * x3 - (a + 3.0) * x2 + 1.0
            } else if x < 2.0 {
                a * x3 - 5.0 * a * x2 + 8.0 * a * x - 4.0 * a
            } else {
                0.0
            }
        }
        _ => (1.0 - x).max(0.0),
    }
}

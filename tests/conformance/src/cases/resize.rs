//! Interpolation.

use millstream_core::{CoordinateMode, DType, MAX_RANK, NearestRounding, ResizeMode, ResizeParams};

use super::gather::values;
use super::{FLOATS, TYPES};
use crate::{Case, CaseBuilder, Generator, View, ops};

/// Sizes of input and output; scales are their quotients.
const SIZES: &[(&[usize], &[usize])] = &[
    (&[5], &[5]),
    (&[5], &[10]),
    (&[7], &[3]),
    (&[4], &[1]),
    (&[1], &[3]),
    (&[2, 3, 4, 5], &[2, 3, 8, 10]),
    (&[1, 2, 6, 7], &[1, 2, 4, 3]),
    // Channels last.
    (&[1, 4, 5, 3], &[1, 6, 4, 3]),
    (&[3, 4], &[7, 4]),
    (&[2, 3, 2, 3, 2], &[2, 3, 3, 5, 3]),
    (&[2, 1, 2, 3, 1, 2, 1, 2], &[2, 1, 2, 3, 1, 3, 2, 4]),
    (&[0, 4], &[0, 8]),
    (&[], &[]),
];

const COORDINATES: [CoordinateMode; 6] = [
    CoordinateMode::HalfPixel,
    CoordinateMode::HalfPixelSymmetric,
    CoordinateMode::PytorchHalfPixel,
    CoordinateMode::AlignCorners,
    CoordinateMode::Asymmetric,
    CoordinateMode::CropAndResize,
];

const VIEWS: [(View, View); 3] = [
    (View::Dense, View::Dense),
    (View::Mixed, View::Transposed),
    (View::Transposed, View::Repeated),
];

fn params(mode: ResizeMode, coordinates: CoordinateMode) -> ResizeParams {
    ResizeParams {
        mode,
        coordinates,
        scales: [1.0; MAX_RANK],
        region: [(0.0, 1.0); MAX_RANK],
        extrapolation: -7.0,
        exclude_outside: false,
        antialias: false,
        sizes: [1; MAX_RANK],
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for coordinates in COORDINATES {
        for rounding in [
            NearestRounding::PreferFloor,
            NearestRounding::PreferCeil,
            NearestRounding::Floor,
            NearestRounding::Ceil,
        ] {
            let params = params(ResizeMode::Nearest(rounding), coordinates);
            // Every type takes part, but not with every mode.
            let types = if rounding == NearestRounding::Floor { &TYPES[..] } else { &FLOATS[..1] };
            for &dtype in types {
                all(&mut cases, dtype, params);
            }
        }
        for mode in [ResizeMode::Linear, ResizeMode::Cubic(-0.75), ResizeMode::Cubic(-0.5)] {
            for (exclude_outside, antialias) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                let mut params = params(mode, coordinates);
                (params.exclude_outside, params.antialias) = (exclude_outside, antialias);
                let plain = !exclude_outside && !antialias;
                let types = if plain { &FLOATS[..] } else { &FLOATS[..1] };
                for &dtype in types {
                    all(&mut cases, dtype, params);
                }
            }
        }
    }
    cases.extend(uneven());
    cases.extend(large());
    cases
}

/// Every pair of sizes, with a region that reaches outside where it is used.
fn all(cases: &mut Vec<Case>, dtype: DType, mut params: ResizeParams) {
    for (at, (from, to)) in SIZES.iter().enumerate() {
        for (axis, (&from, &to)) in from.iter().zip(*to).enumerate() {
            params.scales[axis] = if from == 0 { 2.0 } else { to as f64 / from as f64 };
            params.region[axis] = if from == to { (0.0, 1.0) } else { (0.25, 1.25) };
        }
        // Neighboring cases have other views.
        let views = VIEWS[(at + cases.len() / SIZES.len()) % VIEWS.len()];
        cases.push(case(format!("{from:?}"), dtype, from, to, params, views));
    }
}

fn case(
    name: String,
    dtype: DType,
    from: &[usize],
    to: &[usize],
    mut params: ResizeParams,
    (output, input): (View, View),
) -> Case {
    let ResizeParams { mode, coordinates, exclude_outside, antialias, .. } = params;
    let name = format!(
        "resize/{dtype}/{mode:?}-{coordinates:?}-{exclude_outside}-{antialias}-{name}-{output:?}"
    );
    let mut generator = Generator::named(&name);
    let count = from.iter().product();
    let elements = if matches!(mode, ResizeMode::Nearest(_)) {
        values(&mut generator, dtype, count)
    } else {
        generator.elements(dtype, count, -4.0, 4.0)
    };
    params.sizes[..to.len()].copy_from_slice(to);
    CaseBuilder::new(name, ops::resize(params))
        .input(input.layout(dtype, from), &elements)
        .outputs(&[output])
        .build()
}

/// Scales that are not the quotient of the sizes.
fn uneven() -> Vec<Case> {
    let mut cases = Vec::new();
    for (from, to, scale) in [(5, 7, 1.5), (7, 4, 0.6), (4, 4, 1.2), (9, 2, 0.3), (3, 8, 2.8)] {
        for coordinates in COORDINATES.into_iter().chain([CoordinateMode::AlignCornersByScale]) {
            for mode in [
                ResizeMode::Nearest(NearestRounding::PreferFloor),
                ResizeMode::Linear,
                ResizeMode::Cubic(-0.75),
            ] {
                let mut params = params(mode, coordinates);
                params.scales[1] = scale;
                let name = format!("uneven-{from}-{to}");
                cases.push(case(name, DType::F32, &[3, from], &[3, to], params, VIEWS[0]));
            }
        }
    }
    cases
}

fn large() -> Vec<Case> {
    const SHAPES: [([usize; 3], [usize; 3]); 3] =
        [([6, 41, 53], [6, 82, 106]), ([5, 64, 100], [5, 31, 100]), ([9, 3, 3001], [4, 3, 3001])];
    let mut cases = Vec::new();
    for (from, to) in SHAPES {
        for mode in [ResizeMode::Nearest(NearestRounding::Floor), ResizeMode::Linear] {
            let mut params = params(mode, CoordinateMode::HalfPixel);
            for axis in 0..3 {
                params.scales[axis] = to[axis] as f64 / from[axis] as f64;
            }
            cases.push(case(format!("large-{from:?}"), DType::F32, &from, &to, params, VIEWS[0]));
        }
    }
    cases
}

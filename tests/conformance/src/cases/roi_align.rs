//! Regions of interest.

use millstream_core::{DType, Op, RoiAlignParams, RoiMode};

use crate::{Case, CaseBuilder, Generator, Value, View, round_to};

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// The shape of the input, the number of regions and the size of the output.
const SHAPES: &[([usize; 4], usize, [u32; 2])] = &[
    ([2, 3, 9, 12], 7, [3, 2]),
    ([1, 18, 5, 5], 4, [1, 4]),
    ([3, 1, 1, 1], 5, [2, 2]),
    ([2, 2, 4, 4], 0, [2, 2]),
];

/// Of output, input, regions and batches.
const VIEWS: [[View; 4]; 2] = [
    [View::Dense, View::Dense, View::Dense, View::Dense],
    [View::Mixed, View::Transposed, View::Stepped, View::Stepped],
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for mode in [RoiMode::Mean, RoiMode::Max] {
            for half_pixel in [false, true] {
                for samples in [0, 2] {
                    for (at, &(src, regions, size)) in SHAPES.iter().enumerate() {
                        let scale = [1.0, 0.25][at % 2];
                        let params = RoiAlignParams { size, samples, scale, mode, half_pixel };
                        cases.push(case(dtype, params, src, regions, VIEWS[(at + 1) % 2]));
                    }
                }
            }
        }
    }
    let (size, mode) = ([7, 7], RoiMode::Mean);
    let params = RoiAlignParams { size, samples: 0, scale: 0.5, mode, half_pixel: true };
    cases.push(case(DType::F32, params, [2, 20, 30, 40], 20, VIEWS[0]));
    cases.extend(far());
    cases
}

fn case(
    dtype: DType,
    params: RoiAlignParams,
    src: [usize; 4],
    regions: usize,
    views: [View; 4],
) -> Case {
    let name = format!("roi_align/{dtype}/{params:?}-{src:?}-{regions}");
    let mut generator = Generator::named(&name);
    let values = generator.elements(dtype, src.iter().product(), -4.0, 4.0);
    let mut corners = Vec::new();
    for region in 0..regions {
        let ends = [src[3], src[2]].map(|size| size as f64 / f64::from(params.scale));
        let mut sides = [[0.0; 2]; 2];
        for (side, end) in sides.iter_mut().zip(ends) {
            let place = |generator: &mut Generator| generator.between(-0.4 * end, 1.4 * end);
            *side = [place(&mut generator), place(&mut generator)];
            // Mostly in order. Some have nothing in them, or far too much.
            match region % 7 {
                3 => {}
                4 => side[1] = side[0],
                5 => *side = [-2.0 * end, 3.0 * end],
                _ => side.sort_by(f64::total_cmp),
            }
        }
        if region % 7 == 6 {
            sides[region % 2][1] = f64::NAN;
        }
        let [[x1, x2], [y1, y2]] = sides;
        corners.extend([x1, y1, x2, y2].map(|at| Value::Float(round_to(dtype, at))));
    }
    let batches: Vec<Value> =
        (0..regions).map(|_| Value::Int(generator.below(src[0]) as i128)).collect();
    let index_type = if regions.is_multiple_of(2) { DType::I32 } else { DType::I64 };
    CaseBuilder::new(name, Op::RoiAlign { params })
        .input(views[1].layout(dtype, &src), &values)
        .input(views[2].layout(dtype, &[regions, 4]), &corners)
        .input(views[3].layout(index_type, &[regions]), &batches)
        .outputs(&views[..1])
        .build()
}

/// Regions of far more samples than are taken.
fn far() -> Vec<Case> {
    const CORNERS: [[f64; 2]; 3] = [[-4e4, 4e4], [-1e30, 1e30], [f64::NEG_INFINITY, f64::INFINITY]];
    let build = |([x1, x2], mode): ([f64; 2], RoiMode)| {
        let params =
            RoiAlignParams { size: [1, 1], samples: 0, scale: 1.0, mode, half_pixel: true };
        let name = format!("roi_align/f32/far-{mode:?}-{x1}");
        let mut generator = Generator::named(&name);
        let values = generator.elements(DType::F32, 6, 1.0, 4.0);
        let corners = [x1, 0.2, x2, 1.7].map(|at| Value::Float(round_to(DType::F32, at)));
        CaseBuilder::new(name, Op::RoiAlign { params })
            .input(View::Dense.layout(DType::F32, &[1, 1, 2, 3]), &values)
            .input(View::Dense.layout(DType::F32, &[1, 4]), &corners)
            .input(View::Dense.layout(DType::I64, &[1]), &[Value::Int(0)])
            .outputs(&[View::Dense])
            .build()
    };
    let modes = |corners| [(corners, RoiMode::Mean), (corners, RoiMode::Max)];
    CORNERS.into_iter().flat_map(modes).map(build).collect()
}

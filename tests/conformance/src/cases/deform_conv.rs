//! Convolutions whose taps are moved by data.

use millstream_core::{ConvParams, DType, DeformConvParams, Op};

use super::conv::{Sizes, parameters, shapes};
use crate::{Case, CaseBuilder, Generator, Value, View, round_to};

const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Stride, padding before and after, dilation and groups, the same on every axis.
type Steps = (u32, u32, u32, u32, u32);

const fn sizes(
    batch: usize,
    channels: [usize; 2],
    input: &'static [usize],
    kernel: &'static [usize],
) -> Sizes<'static> {
    Sizes { batch, channels, input, kernel }
}

/// Sizes, steps and groups of offsets.
const SHAPES: &[(Sizes<'static>, Steps, u32)] = &[
    (sizes(2, [3, 5], &[5, 7], &[3, 2]), (1, 0, 0, 1, 1), 1),
    (sizes(1, [4, 6], &[6, 5], &[2, 3]), (2, 1, 2, 1, 2), 4),
    (sizes(2, [6, 6], &[7, 9], &[3, 3]), (1, 2, 1, 2, 6), 2),
    (sizes(1, [4, 8], &[4, 4], &[1, 1]), (1, 0, 0, 1, 2), 1),
    (sizes(1, [6, 4], &[4, 5], &[2, 2]), (1, 1, 0, 1, 2), 3),
    (sizes(0, [2, 3], &[4, 4], &[2, 2]), (1, 0, 0, 1, 1), 1),
    (sizes(2, [0, 3], &[4, 4], &[2, 2]), (1, 0, 0, 1, 1), 1),
    (sizes(1, [2, 3], &[0, 3], &[2, 2]), (1, 1, 1, 1, 1), 2),
];

/// Of the output, of input, weight and bias, and of offset and mask.
const VIEWS: [[View; 3]; 2] =
    [[View::Dense, View::Dense, View::Dense], [View::Mixed, View::Transposed, View::Stepped]];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for (at, &(sizes, steps, offset_groups)) in SHAPES.iter().enumerate() {
            for (bias, mask) in [(at % 2 == 0, at % 4 < 2), (at % 2 == 1, at % 4 >= 2)] {
                let conv = parameters(2, steps, 0);
                let params = DeformConvParams { conv, offset_groups, bias, mask };
                cases.push(case(dtype, sizes, params, VIEWS[usize::from(bias)]));
            }
        }
    }
    // More than one block of positions and outputs.
    let conv = ConvParams { pad_before: [1, 0, 0], ..ConvParams::new(2) };
    let params = DeformConvParams { conv, offset_groups: 2, bias: true, mask: true };
    let large = sizes(2, [16, 35], &[19, 40], &[3, 3]);
    cases.push(case(DType::F32, large, params, VIEWS[0]));
    cases
}

fn case(dtype: DType, sizes: Sizes, params: DeformConvParams, views: [View; 3]) -> Case {
    let [src, weight] = shapes(sizes, &params.conv, false);
    let name = format!("deform_conv/{dtype}/{src:?}x{weight:?}-{params:?}");
    let mut generator = Generator::named(&name);
    let made = crate::ops::conv(false, params.conv, Default::default());
    let layouts = [views[1].layout(dtype, &src), views[1].layout(dtype, &weight)];
    let made = made.infer(&layouts.each_ref()).expect("a valid convolution")[0];
    let out = made.shape();
    let taps = params.offset_groups as usize * weight[2] * weight[3];
    let [offset, mask] = [2 * taps, taps].map(|channels| vec![out[0], channels, out[2], out[3]]);
    // Near, on elements, around the edges, far outside, and nowhere.
    let special = [0.0, 1.0, -1.0, 0.5, -3.0, 4.0, 1e4, 1e30, f64::NEG_INFINITY, f64::NAN];
    let step = |_| match generator.below(4) {
        0 => Value::Float(round_to(dtype, special[generator.below(special.len())])),
        _ => generator.element(dtype, -2.5, 2.5),
    };
    let steps: Vec<Value> = (0..offset.iter().product()).map(step).collect();
    let mut values = |shape: &[usize]| generator.elements(dtype, shape.iter().product(), -1.0, 1.0);
    let mut case = CaseBuilder::new(name, Op::DeformConv { params: Box::new(params) })
        .input(layouts[0], &values(&src))
        .input(layouts[1], &values(&weight))
        .input(views[2].layout(dtype, &offset), &steps);
    if params.bias {
        case = case.input(views[1].layout(dtype, &out[1..2]), &values(&out[1..2]));
    }
    if params.mask {
        case = case.input(views[2].layout(dtype, &mask), &values(&mask));
    }
    case.outputs(&views[..1]).build()
}

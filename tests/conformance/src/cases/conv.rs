//! Convolutions, plain and transposed.

use millstream_core::{ConvParams, DType, Epilogue};

use super::FLOATS;
use super::matmul::ACTIVATIONS;
use crate::{Case, CaseBuilder, Generator, View, ops};

/// A convolution by its sizes: batch, input and output channels, input and kernel.
#[derive(Clone, Copy)]
pub(super) struct Sizes<'a> {
    pub batch: usize,
    pub channels: [usize; 2],
    pub input: &'a [usize],
    pub kernel: &'a [usize],
}

const fn sizes<'a>(
    batch: usize,
    channels: [usize; 2],
    input: &'a [usize],
    kernel: &'a [usize],
) -> Sizes<'a> {
    Sizes { batch, channels, input, kernel }
}

/// Stride, padding before and after, dilation and groups, the same on every axis.
type Steps = (u32, u32, u32, u32, u32);

/// Sizes and steps that a convolution may meet, with one to three axes.
pub(super) const PLAIN: &[(Sizes<'static>, Steps)] = &[
    (sizes(2, [3, 5], &[9], &[3]), (1, 0, 0, 1, 1)),
    (sizes(2, [3, 5], &[9], &[3]), (1, 1, 1, 1, 1)),
    (sizes(3, [4, 6], &[11], &[2]), (2, 0, 1, 1, 2)),
    (sizes(1, [2, 3], &[17], &[3]), (3, 2, 0, 2, 1)),
    (sizes(1, [1, 1], &[1], &[1]), (1, 0, 0, 1, 1)),
    (sizes(1, [1, 1], &[1], &[5]), (1, 2, 2, 1, 1)),
    (sizes(2, [6, 6], &[13], &[3]), (1, 1, 1, 1, 6)),
    (sizes(2, [4, 8], &[10], &[4]), (2, 1, 2, 1, 4)),
    (sizes(1, [2, 8], &[10], &[3]), (1, 1, 1, 1, 2)),
    (sizes(0, [3, 5], &[9], &[3]), (1, 0, 0, 1, 1)),
    (sizes(2, [0, 5], &[9], &[3]), (1, 0, 0, 1, 1)),
    (sizes(2, [3, 0], &[9], &[3]), (1, 0, 0, 1, 1)),
    (sizes(2, [2, 3], &[0], &[2]), (1, 1, 2, 1, 1)),
    (sizes(2, [33, 35], &[37], &[1]), (1, 0, 0, 1, 1)),
    (sizes(2, [3, 4], &[7, 6], &[3, 2]), (1, 1, 0, 1, 1)),
    (sizes(1, [2, 4], &[9, 8], &[3, 3]), (2, 1, 1, 2, 2)),
    (sizes(2, [3, 3], &[6, 7], &[3, 3]), (1, 1, 1, 1, 3)),
    (sizes(1, [4, 8], &[11, 14], &[5, 5]), (2, 2, 1, 1, 4)),
    (sizes(2, [2, 3], &[4, 5, 6], &[2, 3, 1]), (1, 1, 0, 1, 1)),
    (sizes(1, [4, 2], &[5, 4, 5], &[2, 2, 3]), (2, 1, 1, 1, 2)),
];

const TRANSPOSED: &[(Sizes<'static>, Steps, u32)] = &[
    // More behind the end than a step, which no tap reaches.
    (sizes(2, [3, 4], &[5], &[3]), (2, 1, 0, 1, 1), 6),
    (sizes(1, [4, 4], &[4], &[2]), (1, 0, 1, 2, 4), 9),
    (sizes(1, [2, 3], &[3, 4], &[2, 3]), (2, 0, 0, 1, 1), 5),
    (sizes(2, [3, 5], &[7], &[3]), (1, 0, 0, 1, 1), 0),
    (sizes(2, [3, 5], &[7], &[3]), (2, 1, 0, 1, 1), 1),
    (sizes(1, [4, 6], &[5], &[4]), (3, 2, 1, 1, 2), 2),
    (sizes(1, [2, 2], &[5], &[2]), (4, 0, 0, 1, 1), 3),
    (sizes(1, [2, 3], &[6], &[3]), (2, 1, 2, 3, 1), 2),
    (sizes(2, [4, 4], &[6], &[3]), (2, 1, 1, 1, 4), 0),
    (sizes(1, [3, 2], &[1], &[1]), (5, 0, 0, 1, 1), 4),
    (sizes(0, [3, 5], &[7], &[3]), (1, 0, 0, 1, 1), 0),
    (sizes(1, [0, 5], &[7], &[3]), (2, 0, 0, 1, 1), 0),
    (sizes(2, [3, 4], &[4, 3], &[3, 2]), (2, 1, 0, 1, 1), 1),
    (sizes(1, [4, 2], &[3, 4], &[2, 3]), (1, 1, 1, 2, 2), 0),
    (sizes(1, [2, 3], &[3, 2, 3], &[2, 3, 2]), (2, 0, 1, 1, 1), 0),
];

pub(super) fn parameters(axes: usize, steps: Steps, output_padding: u32) -> ConvParams {
    let (stride, before, after, dilation, groups) = steps;
    let mut params = ConvParams { groups, ..ConvParams::new(axes) };
    for axis in 0..axes {
        params.stride[axis] = stride;
        params.pad_before[axis] = before;
        params.pad_after[axis] = after;
        params.dilation[axis] = dilation;
        params.output_padding[axis] = output_padding;
    }
    params
}

/// The shapes of input and weight.
pub(super) fn shapes(sizes: Sizes, params: &ConvParams, transposed: bool) -> [Vec<usize>; 2] {
    let groups = params.groups as usize;
    let [inputs, outputs] = sizes.channels;
    let first = if transposed { [inputs, outputs / groups] } else { [outputs, inputs / groups] };
    [[&[sizes.batch, inputs], sizes.input].concat(), [&first, sizes.kernel].concat()]
}

/// Outputs, inputs and weights laid out in different ways.
pub(super) const VIEWS: [[View; 3]; 4] = [
    [View::Dense, View::Dense, View::Dense],
    [View::Mixed, View::Transposed, View::Stepped],
    [View::Transposed, View::Stepped, View::Dense],
    [View::Shifted, View::Repeated, View::Transposed],
];

fn case(
    name: String,
    dtype: DType,
    [input, weight]: &[Vec<usize>; 2],
    views: [View; 3],
    (transposed, params): (bool, ConvParams),
    epilogue: Epilogue,
) -> Case {
    let mut generator = Generator::named(&name);
    let mut values = |shape: &[usize]| generator.elements(dtype, shape.iter().product(), -1.0, 1.0);
    let layouts = [views[1].layout(dtype, input), views[2].layout(dtype, weight)];
    let mut case = CaseBuilder::new(name, ops::conv(transposed, params, epilogue))
        .input(layouts[0], &values(input))
        .input(layouts[1], &values(weight));
    // What follows the sums has the shape of what a plain convolution makes.
    let plain = ops::conv(transposed, params, Epilogue::default());
    let made = plain.infer(&layouts.each_ref()).expect("a valid convolution")[0];
    let shape = made.shape();
    if epilogue.bias {
        case = case.input(View::Stepped.layout(dtype, &shape[1..2]), &values(&shape[1..2]));
    }
    if epilogue.residual {
        case = case.input(View::Transposed.layout(dtype, shape), &values(shape));
    }
    case.outputs(&views[..1]).build()
}

pub(super) fn forward() -> Vec<Case> {
    let (plain, mut cases) = (Epilogue::default(), Vec::new());
    for dtype in FLOATS {
        for &(sizes, steps) in PLAIN {
            let params = parameters(sizes.input.len(), steps, 0);
            let shapes = shapes(sizes, &params, false);
            for views in VIEWS {
                let name =
                    format!("conv/{dtype}/{:?}x{:?}-{steps:?}-{views:?}", shapes[0], shapes[1]);
                cases.push(case(name, dtype, &shapes, views, (false, params), plain));
            }
        }
        cases.extend(epilogues(dtype, false));
    }
    // More than one block of every kind, and a wide plane with few channels.
    for (size, groups) in [
        (sizes(1, [20, 130], &[131], &[3]), 1),
        (sizes(1, [40, 40], &[19, 23], &[3, 3]), 40),
        (sizes(1, [3, 8], &[40, 41], &[3, 3]), 1),
    ] {
        let params = parameters(size.input.len(), (1, 1, 1, 1, groups), 0);
        let shapes = shapes(size, &params, false);
        for dtype in [DType::F32, DType::BF16] {
            let name = format!("conv/{dtype}/large-{:?}", shapes[0]);
            cases.push(case(name, dtype, &shapes, VIEWS[0], (false, params), plain));
        }
    }
    cases
}

pub(super) fn transposed() -> Vec<Case> {
    let (plain, mut cases) = (Epilogue::default(), Vec::new());
    for dtype in FLOATS {
        for &(sizes, steps, extra) in TRANSPOSED {
            let params = parameters(sizes.input.len(), steps, extra);
            let shapes = shapes(sizes, &params, true);
            for views in VIEWS {
                let name = format!(
                    "conv_transpose/{dtype}/{:?}x{:?}-{steps:?}-{extra}-{views:?}",
                    shapes[0], shapes[1]
                );
                cases.push(case(name, dtype, &shapes, views, (true, params), plain));
            }
        }
        cases.extend(epilogues(dtype, true));
    }
    cases
}

/// Every activation with scale, bias and residual, for a product and for single channels.
fn epilogues(dtype: DType, transposed: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for activation in ACTIVATIONS {
        for (scale, bias, residual) in
            [(1.0, true, false), (-0.5, false, true), (0.125, true, true), (0.0, true, false)]
        {
            for groups in [1, 4] {
                let params = parameters(1, (2, 1, 1, 1, groups), 0);
                let shapes = shapes(sizes(2, [4, 4], &[9], &[3]), &params, transposed);
                let residual = residual && !transposed;
                let epilogue = Epilogue { scale, bias, residual, activation };
                let kind = if transposed { "conv_transpose" } else { "conv" };
                let name = format!(
                    "{kind}/{dtype}/epilogue-{activation:?}-{scale}-{bias}-{residual}-{groups}"
                );
                cases.push(case(name, dtype, &shapes, VIEWS[0], (transposed, params), epilogue));
            }
        }
    }
    cases
}

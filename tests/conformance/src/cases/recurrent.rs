//! Recurrent layers.

use millstream_core::{
    DType, RecurrentActivation, RecurrentCell, RecurrentDirection, RecurrentParams,
    RecurrentVariant,
};

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, Value, View, ops};

const CELLS: [RecurrentCell; 5] = [
    RecurrentCell::Lstm,
    RecurrentCell::Gru { linear_before_reset: false },
    RecurrentCell::Gru { linear_before_reset: true },
    RecurrentCell::RnnTanh,
    RecurrentCell::RnnRelu,
];

const DIRECTIONS: [RecurrentDirection; 3] =
    [RecurrentDirection::Forward, RecurrentDirection::Reverse, RecurrentDirection::Both];

/// Time, batch, input and hidden size.
type Sizes = [usize; 4];

const SIZES: &[Sizes] = &[
    [5, 3, 4, 6],
    [1, 1, 1, 1],
    [4, 17, 3, 9],
    [0, 2, 3, 4],
    [3, 0, 2, 2],
    [3, 2, 0, 5],
    [3, 2, 4, 0],
    [3, 1, 5, 33],
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for cell in CELLS {
            for direction in DIRECTIONS {
                for (at, &sizes) in SIZES.iter().enumerate() {
                    for given in [false, true] {
                        let params = RecurrentParams {
                            cell,
                            direction,
                            bias: given,
                            initial_hidden: given,
                            initial_cell: given && cell == RecurrentCell::Lstm,
                            lengths: given,
                            variant: RecurrentVariant::default(),
                        };
                        // Every other case is laid out awkwardly.
                        cases.push(case(dtype, sizes, params, (at + usize::from(given)) % 2 == 1));
                    }
                }
            }
        }
    }
    cases.extend(variants());
    cases
}

/// Every activation is one of these somewhere.
const ACTIVATIONS: [[[RecurrentActivation; 3]; 2]; 2] = {
    use RecurrentActivation::*;
    let hard = HardSigmoid { alpha: 0.3, beta: 0.45 };
    let scaled = ScaledTanh { alpha: 0.9, beta: 1.25 };
    [
        [[hard, scaled, Softsign], [Sigmoid, Elu { alpha: 0.75 }, LeakyRelu { alpha: 0.125 }]],
        // Sums stay far below the threshold.
        [
            [Affine { alpha: 0.25, beta: 0.5 }, Relu, Softplus],
            [Sigmoid, Tanh, ThresholdedRelu { alpha: 90.0 }],
        ],
    ]
};

/// Layers that differ from the usual ones.
fn variants() -> Vec<Case> {
    let usual = RecurrentVariant::default();
    let mut all = vec![
        RecurrentVariant { clip: Some(0.4), ..usual },
        RecurrentVariant { activations: Some(ACTIVATIONS[0]), ..usual },
        RecurrentVariant { activations: Some(ACTIVATIONS[1]), clip: Some(0.7), ..usual },
        RecurrentVariant { quantized: true, ..usual },
        RecurrentVariant { quantized: true, zeros: true, ..usual },
    ];
    let of_any = all.len();
    all.extend([
        RecurrentVariant { peepholes: true, ..usual },
        RecurrentVariant { input_forget: true, ..usual },
        RecurrentVariant { quantized: true, zeros: true, rounded: true, ..usual },
        RecurrentVariant {
            peepholes: true,
            input_forget: true,
            activations: Some(ACTIVATIONS[0]),
            clip: Some(0.6),
            quantized: true,
            zeros: true,
            rounded: true,
        },
    ]);
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for cell in CELLS {
            let lstm = cell == RecurrentCell::Lstm;
            for (at, &variant) in all[..if lstm { all.len() } else { of_any }].iter().enumerate() {
                if variant.quantized && dtype != DType::F32 {
                    continue;
                }
                for (sizes, given) in [([4, 3, 5, 6], true), ([3, 2, 7, 33], false)] {
                    let params = RecurrentParams {
                        cell,
                        direction: DIRECTIONS[2 - at % 2],
                        bias: given,
                        initial_hidden: given,
                        initial_cell: given && lstm,
                        lengths: given,
                        variant,
                    };
                    cases.push(case(dtype, sizes, params, given));
                }
            }
        }
    }
    cases
}

fn case(dtype: DType, sizes: Sizes, params: RecurrentParams, awkward: bool) -> Case {
    let [time, batch, input, hidden] = sizes;
    let (rows, directions) = (params.cell.gates() * hidden, params.direction.count());
    let name = format!("recurrent/{dtype}/{sizes:?}-{params:?}");
    let mut generator = Generator::named(&name);
    let views = match awkward {
        true => [View::Mixed, View::Transposed, View::Stepped],
        false => [View::Dense; 3],
    };
    let state = [directions, batch, hidden];
    let mut case = CaseBuilder::new(name, ops::recurrent(params));
    let RecurrentVariant { quantized, zeros, peepholes, .. } = params.variant;
    // Both kinds of bytes, scales for each row, and one for all.
    let bytes = if awkward { DType::U8 } else { DType::I8 };
    let scale_shape = [directions, if awkward { rows } else { 1 }];
    let src = generator.elements(dtype, time * batch * input, -1.0, 1.0);
    case = case.input(views[2].layout(dtype, &[time, batch, input]), &src);
    for (view, columns) in [(views[1], input), (views[0], hidden)] {
        let shape = [directions, rows, columns];
        let count = shape.iter().product();
        let (dtype, values): (_, Vec<Value>) = match quantized {
            true => {
                let low = if awkward { 0 } else { -128 };
                let byte = |_| Value::Int(generator.below(256) as i128 + low);
                (bytes, (0..count).map(byte).collect())
            }
            false => (dtype, generator.elements(dtype, count, -0.5, 0.5)),
        };
        case = case.input(view.layout(dtype, &shape), &values);
    }
    let operands: [(bool, View, &[usize], f64); 3] = [
        (params.bias, views[2], &[directions, 2, rows], 0.5),
        (params.initial_hidden, views[1], &state, 1.0),
        (params.initial_cell, views[2], &state, 1.0),
    ];
    for (given, view, shape, reach) in operands {
        if given {
            let values = generator.elements(dtype, shape.iter().product(), -reach, reach);
            case = case.input(view.layout(dtype, shape), &values);
        }
    }
    if params.lengths {
        // Some are beyond the limits, which count as the limits.
        let lengths: Vec<Value> =
            (0..batch).map(|_| Value::Int(generator.below(time + 4) as i128 - 1)).collect();
        let dtype = if awkward { DType::I64 } else { DType::I32 };
        case = case.input(views[2].layout(dtype, &[batch]), &lengths);
    }
    if peepholes {
        let values = generator.elements(dtype, directions * 3 * hidden, -0.5, 0.5);
        case = case.input(views[1].layout(dtype, &[directions, 3 * hidden]), &values);
    }
    let scales = scale_shape.iter().product();
    for _ in 0..if quantized { 2 } else { 0 } {
        let values = generator.elements(dtype, scales, 0.001, 0.004);
        case = case.input(views[2].layout(dtype, &scale_shape), &values);
    }
    for _ in 0..if zeros { 2 } else { 0 } {
        let middle = if awkward { 120 } else { -8 };
        let zero = |_| Value::Int(generator.below(17) as i128 + middle);
        let values: Vec<_> = (0..scales).map(zero).collect();
        case = case.input(views[1].layout(bytes, &scale_shape), &values);
    }
    case.outputs(&views).build()
}

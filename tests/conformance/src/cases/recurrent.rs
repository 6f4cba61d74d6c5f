//! Recurrent layers.

use millstream_core::{DType, RecurrentCell, RecurrentDirection, RecurrentParams};

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
                        };
                        // Every other case is laid out awkwardly.
                        cases.push(case(dtype, sizes, params, (at + usize::from(given)) % 2 == 1));
                    }
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
    let operands: [(bool, View, &[usize], f64); 6] = [
        (true, views[2], &[time, batch, input], 1.0),
        (true, views[1], &[directions, rows, input], 0.5),
        (true, views[0], &[directions, rows, hidden], 0.5),
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
    case.outputs(&views).build()
}

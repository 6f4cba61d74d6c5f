//! Softmax and its logarithm.

use millstream_core::{DType, Op};

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, Value, View};

/// Shapes and the axis.
const SHAPES: &[(&[usize], usize)] = &[
    (&[1], 0),
    (&[67], 0),
    (&[5, 1], 1),
    (&[5, 33], 1),
    (&[33, 5], 0),
    (&[3, 4, 5], 1),
    (&[2, 3, 17], 2),
    (&[2, 1, 2, 3, 1, 2, 1, 2], 3),
    (&[2, 1, 2, 3, 1, 2, 1, 2], 4),
    (&[3, 0, 2], 0),
    (&[3, 0, 2], 1),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for log in [false, true] {
        for dtype in FLOATS {
            for &(shape, axis) in SHAPES {
                for (output, input) in [
                    (View::Dense, View::Dense),
                    (View::Mixed, View::Transposed),
                    (View::Transposed, View::Stepped),
                    (View::Shifted, View::Repeated),
                ] {
                    cases.push(case(log, dtype, shape, axis, output, input, 5.0));
                }
            }
            // Far beyond what the exponential can hold.
            cases.push(case(log, dtype, &[4, 19], 1, View::Stepped, View::Shifted, 2000.0));
            cases.push(specials(log, dtype));
            for view in [View::Dense, View::Mixed] {
                let name = format!("softmax/{log}/{dtype}/in-place-{view:?}");
                let values = Generator::named(&name).elements(dtype, 60, -5.0, 5.0);
                let case = CaseBuilder::new(name, Op::Softmax { axis: 1, log });
                let case = case.output(view.layout(dtype, &[3, 4, 5]));
                cases.push(case.in_place(&values).build());
            }
        }
        for (shape, axis) in
            [(&[2, 100_003], 1), (&[1024, 129], 1), (&[129, 1024], 0), (&[4200, 130], 0)]
        {
            cases.push(case(log, DType::F32, shape, axis, View::Dense, View::Dense, 5.0));
        }
    }
    cases
}

fn case(
    log: bool,
    dtype: DType,
    shape: &[usize],
    axis: usize,
    output: View,
    input: View,
    reach: f64,
) -> Case {
    let name = format!("softmax/{log}/{dtype}/{shape:?}-{axis}-{output:?}-{input:?}-{reach}");
    let source = input.layout(dtype, shape);
    let values = Generator::named(&name).elements(dtype, source.elements(), -reach, reach);
    CaseBuilder::new(name, Op::Softmax { axis: axis as u8, log })
        .input(source, &values)
        .outputs(&[output])
        .build()
}

fn specials(log: bool, dtype: DType) -> Case {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let rows = [
        [-inf, 1.0, 2.0, -inf, 0.0],
        [-inf, -inf, -inf, -inf, 3.0],
        [-inf, -inf, -inf, -inf, -inf],
        [inf, 1.0, 2.0, 3.0, 4.0],
        [1.0, nan, 2.0, 3.0, 4.0],
        [0.0, -0.0, 0.0, -0.0, 0.0],
        [1e4, 1e4, -1e4, 0.0, 1e4],
        [-1e4, -1e4, -1e4, -1e4, -1e4],
        [-100.0, 0.0, -20.0, -88.0, -104.0],
    ];
    let values: Vec<Value> = rows.concat().into_iter().map(Value::Float).collect();
    let layout = View::Dense.layout(dtype, &[rows.len(), 5]);
    CaseBuilder::new(format!("softmax/{log}/{dtype}/special"), Op::Softmax { axis: 1, log })
        .input(layout, &values)
        .outputs(&[View::Dense])
        .build()
}

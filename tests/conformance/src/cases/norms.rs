//! Normalization by the root of the mean square, and of groups of channels.

use millstream_core::{DType, Op};

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, Value, View};

const VIEWS: [(View, Option<View>); 5] = [
    (View::Dense, Some(View::Dense)),
    (View::Mixed, Some(View::Transposed)),
    (View::Shifted, Some(View::Stepped)),
    (View::Dense, Some(View::Repeated)),
    (View::Mixed, None),
];

pub(super) fn rms() -> Vec<Case> {
    const SHAPES: &[&[usize]] = &[
        &[7],
        &[3, 64],
        &[4, 67],
        &[2, 3, 5],
        &[3, 2, 4, 5],
        &[5, 1, 1],
        &[2, 1, 2, 3, 1, 2, 1, 2],
        &[3, 0],
        &[0, 3],
    ];
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for &shape in SHAPES {
            for axes in 1..=shape.len().min(3) {
                for weight in [false, true] {
                    for (output, input) in VIEWS {
                        let op = Op::RmsNorm { axes: axes as u8, epsilon: 1e-5, weight };
                        let name = format!(
                            "rms_norm/{dtype}/{shape:?}-{axes}-{weight}-{output:?}-{input:?}"
                        );
                        let tail = &shape[shape.len() - axes..];
                        cases.push(case(name, op, dtype, shape, (output, input), tail));
                    }
                }
            }
        }
        for weight in [&[5][..], &[4, 1], &[]] {
            let op = Op::RmsNorm { axes: 2, epsilon: 1e-5, weight: true };
            let name = format!("rms_norm/{dtype}/broadcast-{weight:?}");
            cases.push(case(name, op, dtype, &[3, 4, 5], VIEWS[0], weight));
        }
        let op = Op::RmsNorm { axes: 1, epsilon: 1e-5, weight: false };
        cases.push(specials(format!("rms_norm/{dtype}/special"), dtype, op, &[6, 4]));
    }
    for shape in [&[1024, 129], &[3, 40_001]] {
        let op = Op::RmsNorm { axes: 1, epsilon: 1e-5, weight: true };
        let name = format!("rms_norm/f32/large-{shape:?}");
        cases.push(case(name, op, DType::F32, shape, VIEWS[0], &shape[1..]));
    }
    cases
}

pub(super) fn group() -> Vec<Case> {
    const SHAPES: &[&[usize]] = &[
        &[3, 6],
        &[2, 6, 5],
        &[2, 6, 3, 4],
        &[1, 6, 2, 3, 4],
        &[2, 6, 1, 3, 1, 2, 1, 2],
        &[2, 6, 701],
        &[2, 6, 0],
        &[0, 6, 2],
        &[2, 0, 2],
    ];
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for &shape in SHAPES {
            for groups in [1, 3, 6] {
                for (weight, bias) in [(false, false), (true, false), (false, true), (true, true)] {
                    for (output, input) in VIEWS {
                        let op = Op::GroupNorm { groups, epsilon: 1e-5, weight, bias };
                        let name = format!(
                            "group_norm/{dtype}/{shape:?}-{groups}-{weight}-{bias}-{output:?}-{input:?}"
                        );
                        let views = (output, input);
                        cases.push(case(name, op, dtype, shape, views, &shape[1..2]));
                    }
                }
            }
        }
        let op = Op::GroupNorm { groups: 1, epsilon: 1e-5, weight: false, bias: false };
        cases.push(specials(format!("group_norm/{dtype}/special"), dtype, op, &[6, 2, 2]));
    }
    let op = Op::GroupNorm { groups: 4, epsilon: 1e-5, weight: true, bias: true };
    let name = "group_norm/f32/large".into();
    cases.push(case(name, op, DType::F32, &[2, 32, 45, 45], VIEWS[0], &[32]));
    cases
}

/// A case; without a view for the input it is in place.
fn case(
    name: String,
    op: Op,
    dtype: DType,
    shape: &[usize],
    (output, input): (View, Option<View>),
    tail: &[usize],
) -> Case {
    let parameters = op.input_names().len() - 1;
    let mut generator = Generator::named(&name);
    let values = generator.elements(dtype, shape.iter().product(), -2.0, 3.0);
    let case = CaseBuilder::new(name, op);
    let mut case = match input {
        // A view that repeats has its last value in every place.
        Some(view) => case.input(view.layout(dtype, shape), &values),
        None => case.output(output.layout(dtype, shape)).in_place(&values),
    };
    for view in [View::Stepped, View::Dense].into_iter().take(parameters) {
        let values = generator.elements(dtype, tail.iter().product(), -1.5, 1.5);
        case = case.input(view.layout(dtype, tail), &values);
    }
    if input.is_some() { case.outputs(&[output]).build() } else { case.build() }
}

/// Six rows of four.
fn specials(name: String, dtype: DType, op: Op, shape: &[usize]) -> Case {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let rows = [
        [1.0, 2.0, nan, 4.0],
        [1.0, inf, 2.0, 3.0],
        [0.0, 0.0, 0.0, 0.0],
        [3.0, 3.0, 3.0, 3.0],
        [1.0, -1.0, 1.0, -1.0],
        [0.0, 0.0, 0.0, 1000.0],
    ];
    let values: Vec<Value> = rows.concat().into_iter().map(Value::Float).collect();
    let layout = View::Dense.layout(dtype, shape);
    CaseBuilder::new(name, op).input(layout, &values).outputs(&[View::Dense]).build()
}

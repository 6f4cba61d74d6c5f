//! Layer normalization.

use millstream_core::{DType, Op};

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, Value, View};

const SHAPES: &[&[usize]] =
    &[&[7], &[3, 64], &[4, 67], &[2, 3, 5], &[3, 2, 4, 5], &[5, 1, 1], &[3, 0]];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for &shape in SHAPES {
            for axes in 1..=shape.len().min(3) {
                for (weight, bias) in [(false, false), (true, false), (false, true), (true, true)] {
                    for (output, input) in [
                        (View::Dense, View::Dense),
                        (View::Mixed, View::Transposed),
                        (View::Shifted, View::Stepped),
                    ] {
                        let op = Op::LayerNorm { axes: axes as u8, epsilon: 1e-5, weight, bias };
                        let name = format!(
                            "layer_norm/{dtype}/{shape:?}-{axes}-{weight}-{bias}-{output:?}-{input:?}"
                        );
                        cases.push(case(name, dtype, shape, op, output, Some(input), (-2.0, 3.0)));
                    }
                }
            }
        }
        let full = Op::LayerNorm { axes: 1, epsilon: 1e-5, weight: true, bias: true };
        let bare = Op::LayerNorm { axes: 1, epsilon: 1e-3, weight: false, bias: false };
        let mut add = |name: &str, shape: &[usize], op: &Op, input, range| {
            let name = format!("layer_norm/{dtype}/{name}");
            cases.push(case(name, dtype, shape, op.clone(), View::Dense, input, range));
        };
        add("in-place", &[5, 33], &full, None, (-2.0, 3.0));
        // A mean far from zero: the difference of squares would lose every digit of the variance.
        add("far-from-zero", &[3, 65], &full, Some(View::Dense), (1000.0, 1004.0));
        add("tiny", &[3, 65], &bare, Some(View::Dense), (-1e-4, 1e-4));
        add("repeated", &[4, 33], &full, Some(View::Repeated), (-2.0, 3.0));
        cases.push(specials(dtype));
        cases.extend(broadcast(dtype));
    }
    for shape in [&[1024, 129], &[3, 40_001]] {
        let op = Op::LayerNorm { axes: 1, epsilon: 1e-5, weight: true, bias: true };
        let name = format!("layer_norm/f32/large-{shape:?}");
        let dense = View::Dense;
        cases.push(case(name, DType::F32, shape, op, dense, Some(dense), (-2.0, 3.0)));
    }
    cases
}

/// A case; without a view for the input it is in place.
fn case(
    name: String,
    dtype: DType,
    shape: &[usize],
    op: Op,
    output: View,
    input: Option<View>,
    (low, high): (f64, f64),
) -> Case {
    let Op::LayerNorm { axes, weight, bias, .. } = op else { unreachable!("not a layer norm") };
    let mut generator = Generator::named(&name);
    let tail = &shape[shape.len() - usize::from(axes)..];
    let values = generator.elements(dtype, shape.iter().product(), low, high);
    let case = CaseBuilder::new(name, op);
    let mut case = match input {
        Some(view) => case.input(view.layout(dtype, shape), &values),
        None => case.output(output.layout(dtype, shape)).in_place(&values),
    };
    for (given, view) in [(weight, View::Stepped), (bias, View::Transposed)] {
        if given {
            let values = generator.elements(dtype, tail.iter().product(), -1.5, 1.5);
            // Mostly dense, as weights are, and strided where there are several axes.
            let view = if axes == 1 { View::Dense } else { view };
            case = case.input(view.layout(dtype, tail), &values);
        }
    }
    if input.is_some() { case.outputs(&[output]).build() } else { case.build() }
}

/// Weights and biases that repeat along the normalized axes.
fn broadcast(dtype: DType) -> Vec<Case> {
    let shapes: [[&[usize]; 2]; 4] =
        [[&[20], &[6, 1]], [&[1, 20], &[]], [&[6, 1], &[1]], [&[], &[6, 20]]];
    let case = |[weight, bias]: [&[usize]; 2]| {
        let op = Op::LayerNorm { axes: 2, epsilon: 1e-5, weight: true, bias: true };
        let name = format!("layer_norm/{dtype}/broadcast-{weight:?}-{bias:?}");
        let mut generator = Generator::named(&name);
        let mut case = CaseBuilder::new(name, op);
        for (shape, view) in
            [(&[3, 6, 20][..], View::Dense), (weight, View::Dense), (bias, View::Stepped)]
        {
            let layout = view.layout(dtype, shape);
            let values = generator.elements(dtype, layout.elements(), -2.0, 3.0);
            case = case.input(layout, &values);
        }
        case.outputs(&[View::Dense]).build()
    };
    shapes.map(case).into()
}

fn specials(dtype: DType) -> Case {
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
    let layout = View::Dense.layout(dtype, &[rows.len(), 4]);
    let op = Op::LayerNorm { axes: 1, epsilon: 1e-5, weight: false, bias: false };
    CaseBuilder::new(format!("layer_norm/{dtype}/special"), op)
        .input(layout, &values)
        .outputs(&[View::Dense])
        .build()
}

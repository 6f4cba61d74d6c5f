//! Elements in the opposite order.

use millstream_core::DType;

use super::TYPES;
use crate::{Case, CaseBuilder, Generator, Value, View, ops};

/// Shapes and the axes.
const SHAPES: &[(&[usize], &[usize])] = &[
    (&[], &[]),
    (&[1], &[0]),
    (&[67], &[0]),
    (&[5, 33], &[1]),
    (&[33, 5], &[0]),
    (&[6, 8], &[0, 1]),
    (&[3, 4, 8], &[0, 1]),
    (&[3, 4, 5], &[0, 2]),
    (&[3, 4, 5], &[]),
    (&[2, 1, 2, 3, 1, 2, 1, 2], &[0, 3, 4, 7]),
    (&[3, 0, 2], &[0]),
];

/// Shapes, the axis that is reversed, and the axis that has lengths.
const SEQUENCES: &[(&[usize], usize, usize)] = &[
    (&[7, 4], 0, 1),
    (&[4, 7], 1, 0),
    (&[9, 3, 8], 0, 1),
    (&[3, 5, 9], 2, 0),
    (&[2, 9, 2, 3], 1, 3),
    (&[1, 6, 1], 1, 0),
    (&[1, 6, 2], 0, 1),
    (&[0, 3], 0, 1),
];

const VIEWS: [[View; 2]; 3] =
    [[View::Dense, View::Dense], [View::Mixed, View::Transposed], [View::Stepped, View::Repeated]];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for &(shape, axes) in SHAPES {
            for views in VIEWS {
                cases.push(case(dtype, shape, axes, None, views));
            }
        }
        for &(shape, axis, batch) in SEQUENCES {
            for views in VIEWS {
                cases.push(case(dtype, shape, &[axis], Some(batch), views));
            }
        }
    }
    cases.push(case(DType::F32, &[131_077], &[0], None, VIEWS[0]));
    cases.push(case(DType::F32, &[317, 416], &[0], None, VIEWS[0]));
    cases.push(case(DType::F16, &[60, 300, 8], &[0], Some(1), VIEWS[0]));
    cases
}

fn case(
    dtype: DType,
    shape: &[usize],
    axes: &[usize],
    batch: Option<usize>,
    [output, input]: [View; 2],
) -> Case {
    let name = format!("reverse/{dtype}/{shape:?}-{axes:?}-{batch:?}-{output:?}-{input:?}");
    let source = input.layout(dtype, shape);
    let mut generator = Generator::named(&name);
    let values = generator.elements(dtype, source.elements(), -9.0, 9.0);
    let mut case = CaseBuilder::new(name, ops::reverse(axes, batch)).input(source, &values);
    if let Some(batch) = batch {
        let wide = if dtype.size() >= 4 { DType::I64 } else { DType::I32 };
        let lengths: Vec<Value> = (0..shape[batch])
            .map(|_| Value::Int(generator.below(shape[axes[0]] + 1) as i128))
            .collect();
        let view = if input == View::Repeated { View::Stepped } else { input };
        case = case.input(view.layout(wide, &shape[batch..=batch]), &lengths);
    }
    case.outputs(&[output]).build()
}

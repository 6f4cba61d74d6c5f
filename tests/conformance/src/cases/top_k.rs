//! The largest and smallest elements along an axis.

use millstream_core::{DType, Op};

use super::NUMBERS;
use crate::generator::special_values;
use crate::{Case, CaseBuilder, Generator, Value, View};

/// Shapes, the axis, and how many are taken.
const SHAPES: &[(&[usize], usize, usize)] = &[
    (&[1], 0, 1),
    (&[67], 0, 5),
    (&[5, 33], 1, 33),
    (&[33, 5], 0, 7),
    (&[3, 4, 5], 1, 2),
    (&[3, 90], 1, 40),
    (&[2, 1, 2, 3, 1, 2, 1, 2], 3, 2),
    (&[4, 6], 1, 0),
    (&[3, 0, 2], 1, 0),
    (&[0, 4], 1, 3),
];

/// Views of values, indices and input.
const VIEWS: [[View; 3]; 3] = [
    [View::Dense, View::Dense, View::Dense],
    [View::Mixed, View::Transposed, View::Stepped],
    [View::Shifted, View::Mixed, View::Transposed],
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in NUMBERS {
        for (largest, sorted) in [(true, true), (true, false), (false, true), (false, false)] {
            for &(shape, axis, k) in SHAPES {
                for (at, views) in VIEWS.into_iter().enumerate() {
                    let op = Op::TopK { axis: axis as u8, k, largest, sorted };
                    let name =
                        format!("top_k/{dtype}/{shape:?}-{axis}-{k}-{largest}-{sorted}-{at}");
                    let count = shape.iter().product();
                    let mut values = Generator::named(&name).elements(dtype, count, -4.0, 4.0);
                    // Ties, for the indices.
                    for value in values.iter_mut().step_by(2).filter(|_| dtype.is_float()) {
                        *value = Value::Float(value.as_f64().round());
                    }
                    cases.push(case(name, op, dtype, shape, views, &values));
                }
            }
            let mut values = special_values(dtype);
            values.extend(special_values(dtype));
            let count = values.len();
            for k in [9, count] {
                let op = Op::TopK { axis: 0, k, largest, sorted };
                let name = format!("top_k/{dtype}/special-{largest}-{sorted}-{k}");
                cases.push(case(name, op, dtype, &[count], VIEWS[0], &values));
            }
        }
    }
    for k in [10, 100] {
        let name = format!("top_k/f32/large-{k}");
        let values = Generator::named(&name).elements(DType::F32, 300 * 401, -4.0, 4.0);
        let op = Op::TopK { axis: 1, k, largest: true, sorted: true };
        cases.push(case(name, op, DType::F32, &[300, 401], VIEWS[0], &values));
    }
    cases.extend(long());
    cases
}

/// Rows that no group of threads holds as a whole, and of which few or most are wanted.
fn long() -> Vec<Case> {
    const WANTED: [(usize, bool, bool); 3] =
        [(100, true, true), (1800, false, false), (3500, true, true)];
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::U8, DType::I64] {
        for (k, largest, sorted) in WANTED {
            let name = format!("top_k/{dtype}/long-{k}-{largest}-{sorted}");
            let mut values = Generator::named(&name).elements(dtype, 2 * 3500, -99.0, 99.0);
            for value in values.iter_mut().step_by(3).filter(|_| dtype.is_float()) {
                *value = Value::Float(value.as_f64().round());
            }
            let op = Op::TopK { axis: 1, k, largest, sorted };
            cases.push(case(name, op, dtype, &[2, 3500], VIEWS[1], &values));
        }
    }
    cases
}

fn case(
    name: String,
    op: Op,
    dtype: DType,
    shape: &[usize],
    [values, indices, input]: [View; 3],
    elements: &[Value],
) -> Case {
    CaseBuilder::new(name, op)
        .input(input.layout(dtype, shape), elements)
        .outputs(&[values, indices])
        .build()
}

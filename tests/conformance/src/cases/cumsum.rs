//! Running sums and products.

use millstream_core::{DType, Op};

use super::NUMBERS;
use crate::generator::special_values;
use crate::{Case, CaseBuilder, Generator, Value, View};

/// Shapes and the axis.
const SHAPES: &[(&[usize], usize)] = &[
    (&[1], 0),
    (&[67], 0),
    (&[5, 33], 1),
    (&[33, 5], 0),
    (&[9, 70], 0),
    (&[3, 4, 5], 1),
    (&[2, 1, 2, 3, 1, 2, 1, 2], 3),
    (&[2, 1, 2, 3, 1, 2, 1, 2], 4),
    (&[3, 0, 2], 0),
    (&[3, 0, 2], 1),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in NUMBERS {
        for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
            for &(shape, axis) in SHAPES {
                for (output, input) in [
                    (View::Dense, Some(View::Dense)),
                    (View::Mixed, Some(View::Transposed)),
                    (View::Shifted, Some(View::Repeated)),
                    (View::Stepped, None),
                ] {
                    let op = Op::CumSum { axis: axis as u8, exclusive, reverse, product: false };
                    let name = format!(
                        "cumsum/{dtype}/{shape:?}-{axis}-{exclusive}-{reverse}-{output:?}-{input:?}"
                    );
                    let values =
                        Generator::named(&name).elements(dtype, shape.iter().product(), -4.0, 4.0);
                    let case = CaseBuilder::new(name, op);
                    let case = match input {
                        Some(view) => {
                            case.input(view.layout(dtype, shape), &values).outputs(&[output])
                        }
                        None => case.output(output.layout(dtype, shape)).in_place(&values),
                    };
                    cases.push(case.build());
                }
            }
            cases.push(specials(dtype, exclusive, reverse));
            cases.extend(products(dtype, exclusive, reverse));
        }
    }
    for (dtype, shape, axis) in
        [(DType::F32, [3, 40_001], 1), (DType::F32, [317, 331], 0), (DType::I32, [317, 331], 1)]
    {
        let name = format!("cumsum/{dtype}/large-{shape:?}-{axis}");
        let values = Generator::named(&name).elements(dtype, shape[0] * shape[1], -4.0, 4.0);
        let layout = View::Dense.layout(dtype, &shape);
        let op = Op::CumSum { axis, exclusive: false, reverse: false, product: false };
        let case = CaseBuilder::new(name, op).input(layout, &values);
        cases.push(case.outputs(&[View::Dense]).build());
    }
    cases
}

/// Rows of five with one special value each.
fn specials(dtype: DType, exclusive: bool, reverse: bool) -> Case {
    // The very largest overflow on the way, which a device may do its own way.
    let usable = |value: &Value| {
        !value.as_f64().is_finite() || !dtype.is_float() || value.as_f64().abs() < 1e4
    };
    let special: Vec<Value> = special_values(dtype).into_iter().filter(usable).collect();
    let mut values = Generator::new(61).elements(dtype, 5 * special.len(), 0.5, 1.5);
    for (row, &value) in special.iter().enumerate() {
        values[5 * row + row % 5] = value;
    }
    let layout = View::Dense.layout(dtype, &[special.len(), 5]);
    let name = format!("cumsum/{dtype}/special-{exclusive}-{reverse}");
    CaseBuilder::new(name, Op::CumSum { axis: 1, exclusive, reverse, product: false })
        .input(layout, &values)
        .outputs(&[View::Dense])
        .build()
}

/// Products, in a row that a group has and in rows side by side.
fn products(dtype: DType, exclusive: bool, reverse: bool) -> Vec<Case> {
    let shapes: [(&[usize], u8, View); 3] =
        [(&[3, 67], 1, View::Dense), (&[9, 40], 0, View::Mixed), (&[3, 0, 2], 1, View::Dense)];
    let case = |(shape, axis, view): (&[usize], u8, View)| {
        let name = format!("cumsum/{dtype}/product-{shape:?}-{axis}-{exclusive}-{reverse}");
        let count = shape.iter().product();
        let values = Generator::named(&name).elements(dtype, count, 0.6, 1.5);
        let op = Op::CumSum { axis, exclusive, reverse, product: true };
        let case = CaseBuilder::new(name, op).input(view.layout(dtype, shape), &values);
        case.outputs(&[View::Dense]).build()
    };
    shapes.into_iter().map(case).collect()
}

//! Conversion to and from integers with a scale.

use millstream_core::DType;

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, Value, View, ops};

const SHAPES: &[(&[usize], Option<usize>)] = &[
    (&[], None),
    (&[7], None),
    (&[7], Some(0)),
    (&[3, 67], None),
    (&[3, 67], Some(0)),
    (&[3, 67], Some(1)),
    (&[2, 3, 4, 5], Some(1)),
    (&[2, 0, 3], Some(1)),
    (&[1, 2, 1, 2, 1, 2, 1, 2], Some(3)),
    (&[20, 1000], Some(0)),
];

const VIEWS: [[View; 2]; 3] =
    [[View::Dense, View::Dense], [View::Mixed, View::Transposed], [View::Shifted, View::Stepped]];

fn cases(float: DType, integer: DType, back: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for &(shape, axis) in SHAPES {
        for zero in [false, true] {
            for views in VIEWS {
                if shape == [20, 1000] && (views != VIEWS[0] || !zero) {
                    // Only there for its size.
                    continue;
                }
                let kind = if back { "dequantize" } else { "quantize" };
                let name = format!("{kind}/{float}-{integer}/{shape:?}-{axis:?}-{zero}-{views:?}");
                let mut generator = Generator::named(&name);
                let count = shape.iter().product();
                let (from, to) = if back { (integer, float) } else { (float, integer) };
                let values = generator.elements(from, count, -40.0, 40.0);
                let parameters: Vec<usize> = axis.iter().map(|&axis| shape[axis]).collect();
                let many = parameters.iter().product();
                // Powers of two among them, whose quotients have halves to round.
                let scales: Vec<Value> = (0..many)
                    .map(|i| match i % 3 {
                        0 => Value::Float(0.25),
                        _ => generator.element(DType::F32, 0.01, 1.0),
                    })
                    .collect();
                let op = ops::quantize(axis, to, zero);
                let mut case = CaseBuilder::new(name, op)
                    .input(views[1].layout(from, shape), &values)
                    .input(View::Stepped.layout(DType::F32, &parameters), &scales);
                if zero {
                    let zeros = generator.elements(integer, many, 0.0, 0.0);
                    case = case.input(View::Dense.layout(integer, &parameters), &zeros);
                }
                cases.push(case.outputs(&views[..1]).build());
            }
        }
    }
    cases
}

pub(super) fn to_integers() -> Vec<Case> {
    let mut all = Vec::new();
    for float in FLOATS {
        for integer in [DType::U8, DType::I8] {
            all.extend(cases(float, integer, false));
            all.push(special(float, integer));
        }
    }
    all
}

pub(super) fn from_integers() -> Vec<Case> {
    let mut all = Vec::new();
    for float in FLOATS {
        for integer in [DType::U8, DType::I8, DType::I32] {
            all.extend(cases(float, integer, true));
        }
    }
    all
}

/// Halves, limits, infinities and NaN.
fn special(float: DType, integer: DType) -> Case {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let numbers = [
        0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 127.5, -127.5, -128.5, 254.5, 255.5, 1e4, -1e4,
        nan, inf, -inf, 0.0, -0.0,
    ];
    let values = numbers.map(Value::Float);
    let op = ops::quantize(None, integer, true);
    CaseBuilder::new(format!("quantize/{float}-{integer}/special"), op)
        .input(View::Dense.layout(float, &[values.len()]), &values)
        .input(View::Dense.layout(DType::F32, &[]), &[Value::Float(1.0)])
        .input(View::Dense.layout(integer, &[]), &[Value::Int(3)])
        .outputs(&[View::Dense])
        .build()
}

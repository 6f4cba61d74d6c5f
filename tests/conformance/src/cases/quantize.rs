//! Conversion to and from integers with a scale.

use millstream_core::DType;

use super::FLOATS;
use crate::{Case, CaseBuilder, Generator, Value, View, ops, small};

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
                let op = ops::quantize(axis, to, zero, None);
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
    for integer in [DType::U16, DType::I16] {
        all.extend(cases(DType::F32, integer, false));
    }
    all.extend(blocks(false));
    all.extend(packed(false));
    all
}

pub(super) fn from_integers() -> Vec<Case> {
    let mut all = Vec::new();
    for float in FLOATS {
        for integer in [DType::U8, DType::I8, DType::I32] {
            all.extend(cases(float, integer, true));
        }
    }
    for integer in [DType::U16, DType::I16] {
        all.extend(cases(DType::F32, integer, true));
    }
    all.extend(blocks(true));
    all.extend(packed(true));
    all
}

/// Shape, axis, and size of blocks.
const BLOCKS: &[(&[usize], usize, u32)] = &[
    (&[7], 0, 3),
    (&[5], 0, 9),
    (&[3, 67], 1, 16),
    (&[7, 10], 0, 2),
    (&[2, 3, 8, 5], 2, 4),
    (&[5, 64], 1, 32),
    (&[2, 0, 3], 1, 2),
    (&[1, 2, 1, 2, 1, 2, 3], 6, 2),
];

/// Scales of all types, for blocks.
fn blocks(back: bool) -> Vec<Case> {
    let mut all = Vec::new();
    let integers =
        if back { [DType::I8, DType::U16, DType::I32] } else { [DType::U8, DType::I8, DType::I16] };
    for (which, float) in [DType::F32, DType::F16, DType::BF16].into_iter().enumerate() {
        let integer = integers[which];
        for (at, &(shape, axis, block)) in BLOCKS.iter().enumerate() {
            for more in 0..2 {
                let (zero, views) = ((at + more).is_multiple_of(2), VIEWS[(at + which) % 3]);
                let scale = [DType::F32, DType::F16, DType::BF16][(which + more) % 3];
                let kind = if back { "dequantize" } else { "quantize" };
                let name = format!("{kind}/{float}-{integer}-{scale}/{shape:?}-{axis}-{block}");
                let mut generator = Generator::named(&name);
                let (from, to) = if back { (integer, float) } else { (float, integer) };
                let values = generator.elements(from, shape.iter().product(), -40.0, 40.0);
                let mut each = shape.to_vec();
                each[axis] = shape[axis].div_ceil(block as usize);
                let many = each.iter().product();
                let scales = generator.elements(scale, many, 0.1, 1.0);
                let op = ops::quantize(Some(axis), to, zero, Some(block));
                let mut case = CaseBuilder::new(name, op)
                    .input(views[1].layout(from, shape), &values)
                    .input(View::Stepped.layout(scale, &each), &scales);
                if zero {
                    let zeros = generator.elements(integer, many, 0.0, 0.0);
                    case = case.input(View::Transposed.layout(integer, &each), &zeros);
                }
                all.push(case.outputs(&views[..1]).build());
            }
        }
    }
    all
}

/// Numbers of 4 bits, which lie densely, with one scale, scales along an axis, and blocks.
fn packed(back: bool) -> Vec<Case> {
    let places = SHAPES.iter().map(|&(shape, axis)| (shape, axis, None));
    let places =
        places.chain(BLOCKS.iter().map(|&(shape, axis, block)| (shape, Some(axis), Some(block))));
    let mut all = Vec::new();
    for (which, float) in FLOATS.into_iter().enumerate() {
        for (kind, stored) in [DType::I4, DType::U4, DType::F4E2M1].into_iter().enumerate() {
            for (at, (shape, axis, block)) in places.clone().enumerate() {
                // Every place with a zero point and without, not for every type.
                let zero = (at + which + kind).is_multiple_of(2);
                let view = [View::Dense, View::Mixed, View::Stepped][(at + kind) % 3];
                let scale = [DType::F32, DType::F16, DType::BF16][(which + kind) % 3];
                let kind = if back { "dequantize" } else { "quantize" };
                let name =
                    format!("{kind}/{float}-{stored}/{shape:?}-{axis:?}-{block:?}-{zero}-{view:?}");
                let mut generator = Generator::named(&name);
                let mut each: Vec<usize> = axis.iter().map(|&axis| shape[axis]).collect();
                if let (Some(axis), Some(block)) = (axis, block) {
                    each = shape.to_vec();
                    each[axis] = shape[axis].div_ceil(block as usize);
                }
                let (count, many) = (shape.iter().product(), each.iter().product());
                let codes = |generator: &mut Generator, count: usize| -> Vec<Value> {
                    (0..count).map(|_| small::value(stored, generator.below(16) as u8)).collect()
                };
                let (to, input, values) = if back {
                    (float, View::Dense.layout(stored, shape), codes(&mut generator, count))
                } else {
                    (stored, view.layout(float, shape), generator.elements(float, count, -6.0, 9.0))
                };
                // Powers of two among them, whose quotients have halves to round.
                let scales: Vec<Value> = (0..many)
                    .map(|i| match i % 3 {
                        0 => Value::Float(0.5),
                        _ => generator.element(scale, 0.1, 1.0),
                    })
                    .collect();
                let mut case = CaseBuilder::new(name, ops::quantize(axis, to, zero, block))
                    .input(input, &values)
                    .input(View::Stepped.layout(scale, &each), &scales);
                if zero {
                    let zeros = codes(&mut generator, many);
                    case = case.input(View::Dense.layout(stored, &each), &zeros);
                }
                all.push(case.outputs(&[if back { view } else { View::Dense }]).build());
            }
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
    let op = ops::quantize(None, integer, true, None);
    CaseBuilder::new(format!("quantize/{float}-{integer}/special"), op)
        .input(View::Dense.layout(float, &[values.len()]), &values)
        .input(View::Dense.layout(DType::F32, &[]), &[Value::Float(1.0)])
        .input(View::Dense.layout(integer, &[]), &[Value::Int(3)])
        .outputs(&[View::Dense])
        .build()
}

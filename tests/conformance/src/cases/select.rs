//! Choosing between elements, and limiting them.

use millstream_core::{DType, Op, Scalar};

use super::elementwise::GEOMETRIES;
use super::{LARGE, NUMBERS, TYPES};
use crate::generator::{special_values, subnormal_values};
use crate::{Case, CaseBuilder, Generator, Value, View};

pub(super) fn wheres() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for geometry in GEOMETRIES {
            // The condition has each way to broadcast once, and once the whole shape.
            for (part, (shape, view)) in [
                ("as-a", geometry.a),
                ("as-b", geometry.b),
                ("whole", (geometry.shape, View::Mixed)),
            ] {
                let name = format!("where/{dtype}/{}-{part}", geometry.name);
                let mut generator = Generator::named(&name);
                let mut case = CaseBuilder::new(name, Op::Where)
                    .output(geometry.output.layout(dtype, geometry.shape));
                for (dtype, shape, view) in [
                    (DType::Bool, shape, view),
                    (dtype, geometry.a.0, geometry.a.1),
                    (dtype, geometry.b.0, geometry.b.1),
                ] {
                    let layout = view.layout(dtype, shape);
                    case = case
                        .input(layout, &generator.elements(dtype, layout.elements(), -9.0, 9.0));
                }
                cases.push(case.build());
            }
        }
        cases.extend(where_values(dtype));
        cases.extend(wheres_in_place(dtype));
    }
    for dtype in [DType::F32, DType::BF16, DType::U8, DType::I64] {
        let name = format!("where/{dtype}/large");
        let mut generator = Generator::named(&name);
        let shape = [317, 331];
        let mut case = CaseBuilder::new(name, Op::Where);
        for (dtype, view) in
            [(DType::Bool, View::Dense), (dtype, View::Dense), (dtype, View::Mixed)]
        {
            let values = generator.elements(dtype, 317 * 331, -9.0, 9.0);
            case = case.input(view.layout(dtype, &shape), &values);
        }
        cases.push(case.outputs(&[View::Transposed]).build());
    }
    cases
}

/// Special values keep every bit.
fn where_values(dtype: DType) -> Option<Case> {
    let mut values = special_values(dtype);
    if dtype.is_float() {
        values.extend(subnormal_values(dtype));
    }
    let count = values.len();
    let choices: Vec<Value> = (0..count).map(|at| Value::Int(at as i128 % 2)).collect();
    let layout = View::Dense.layout(dtype, &[count]);
    let reversed: Vec<Value> = values.iter().rev().copied().collect();
    let case = CaseBuilder::new(format!("where/{dtype}/special"), Op::Where)
        .input(View::Dense.layout(DType::Bool, &[count]), &choices)
        .input(layout, &values);
    Some(case.input(layout, &reversed).outputs(&[View::Shifted]).build())
}

fn wheres_in_place(dtype: DType) -> Vec<Case> {
    let mut generator = Generator::new(71);
    let choices = generator.elements(DType::Bool, 63, 0.0, 1.0);
    let (a, b) =
        (generator.elements(dtype, 63, -9.0, 9.0), generator.elements(dtype, 63, -9.0, 9.0));
    let condition = View::Stepped.layout(DType::Bool, &[9, 7]);
    let other = View::Transposed.layout(dtype, &[9, 7]);
    let start = |name: &str, view: View| {
        CaseBuilder::new(format!("where/{dtype}/{name}"), Op::Where)
            .output(view.layout(dtype, &[9, 7]))
    };
    let of_a = start("in-place-of-a", View::Mixed).input(condition, &choices).in_place(&a);
    let of_b = start("in-place-of-b", View::Dense).input(condition, &choices);
    let mut cases = vec![
        of_a.input(other, &b).build(),
        of_b.input(other, &a).in_place(&b).build(),
        start("in-place-of-both", View::Dense)
            .input(condition, &choices)
            .in_place(&b)
            .again(0)
            .build(),
    ];
    if dtype == DType::Bool {
        let of_condition = start("in-place-of-condition", View::Dense).in_place(&choices);
        cases.push(of_condition.input(other, &a).input(other, &b).build());
    }
    cases
}

pub(super) fn clips() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in NUMBERS {
        for (at, geometry) in GEOMETRIES.iter().enumerate() {
            let (min, max) = LIMITS[at % 4];
            let name = format!("clip/{dtype}/{}", geometry.name);
            let source = geometry.a.1.layout(dtype, geometry.a.0);
            let values = Generator::named(&name).elements(dtype, source.elements(), -9.0, 9.0);
            let output = geometry.output.layout(dtype, geometry.shape);
            let case = CaseBuilder::new(name, Op::Clip { min, max }).output(output);
            cases.push(case.input(source, &values).build());
        }
        let mut values = special_values(dtype);
        if dtype.is_float() {
            values.extend(subnormal_values(dtype));
        }
        let layout = View::Dense.layout(dtype, &[values.len()]);
        let fractions = [(Some(Scalar::Float(-0.1)), Some(Scalar::Float(2.7)))];
        let fractions = fractions.iter().filter(|_| dtype.is_float());
        for (at, &(min, max)) in LIMITS.iter().chain(fractions).enumerate() {
            for in_place in [false, true] {
                let name = format!("clip/{dtype}/special-{at}-{in_place}");
                let case = CaseBuilder::new(name, Op::Clip { min, max });
                let case = match in_place {
                    true => case.output(layout).in_place(&values),
                    false => case.input(layout, &values).outputs(&[View::Dense]),
                };
                cases.push(case.build());
            }
        }
        let layout = View::Dense.layout(dtype, &[LARGE]);
        let values = Generator::new(72).elements(dtype, LARGE, -9.0, 9.0);
        let (min, max) = LIMITS[0];
        let case = CaseBuilder::new(format!("clip/{dtype}/large"), Op::Clip { min, max });
        cases.push(case.input(layout, &values).outputs(&[View::Dense]).build());
    }
    cases
}

const LIMITS: [(Option<Scalar>, Option<Scalar>); 9] = [
    (Some(Scalar::Int(-3)), Some(Scalar::Int(4))),
    (Some(Scalar::Int(1)), None),
    (None, Some(Scalar::Float(2.0))),
    (None, None),
    // Every element becomes the upper limit.
    (Some(Scalar::Int(5)), Some(Scalar::Int(2))),
    (Some(Scalar::Float(f64::NEG_INFINITY)), Some(Scalar::Float(f64::INFINITY))),
    (Some(Scalar::Int(-300)), Some(Scalar::Int(1 << 40))),
    (Some(Scalar::Float(-0.0)), Some(Scalar::Float(0.0))),
    (Some(Scalar::UInt(1 << 63)), Some(Scalar::UInt(u64::MAX - 1))),
];

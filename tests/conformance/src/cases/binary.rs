//! Functions of two elements.

use millstream_core::{BinaryOp, DType, Op};

use super::elementwise::GEOMETRIES;
use super::{LARGE, TYPES};
use crate::generator::{special_values, subnormal_values};
use crate::{Case, CaseBuilder, Generator, Value, View};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in BinaryOp::ALL {
        for input in TYPES {
            let Some(output) = op.output(input) else { continue };
            for geometry in GEOMETRIES {
                let name = format!("binary/{op:?}/{input}/{}", geometry.name);
                let mut generator = Generator::named(&name);
                let (a, b) = (
                    geometry.a.1.layout(input, geometry.a.0),
                    geometry.b.1.layout(input, geometry.b.0),
                );
                let a_values = operand_values(&mut generator, op, input, a.elements(), false);
                let b_values = operand_values(&mut generator, op, input, b.elements(), true);
                let output = geometry.output.layout(output, geometry.shape);
                let case = CaseBuilder::new(name, Op::Binary { op }).output(output);
                cases.push(case.input(a, &a_values).input(b, &b_values).build());
            }
            cases.push(grid(op, input, "special", &special_values(input)));
            if input.is_float() {
                let mut values = subnormal_values(input);
                values.extend([0.0, 1.0, -2.0].map(Value::Float));
                cases.push(grid(op, input, "subnormal", &values));
            }
            if output == input {
                cases.extend(in_place(op, input));
            }
        }
    }
    cases.extend(large());
    cases
}

fn operand_values(
    generator: &mut Generator,
    op: BinaryOp,
    dtype: DType,
    count: usize,
    second: bool,
) -> Vec<Value> {
    let shifts = matches!(op, BinaryOp::ShiftLeft | BinaryOp::ShiftRight) && second;
    if shifts {
        let width = 8 * dtype.size();
        return (0..count).map(|_| Value::Int(generator.below(width + 2) as i128)).collect();
    }
    // A negative base has few powers that exist; the special values try those.
    let low = if op == BinaryOp::Pow && !second { 0.01 } else { -5.0 };
    let mut values = generator.elements(dtype, count, low, 5.0);
    // Equal pairs, for the comparisons.
    for value in values.iter_mut().step_by(3).filter(|_| dtype.is_float()) {
        *value = Value::Float(value.as_f64().round());
    }
    values
}

/// Every value with every other.
fn grid(op: BinaryOp, input: DType, name: &str, values: &[Value]) -> Case {
    let count = values.len();
    CaseBuilder::new(format!("binary/{op:?}/{input}/{name}"), Op::Binary { op })
        .input(View::Dense.layout(input, &[count, 1]), values)
        .input(View::Dense.layout(input, &[count]), values)
        .outputs(&[View::Dense])
        .build()
}

fn in_place(op: BinaryOp, dtype: DType) -> Vec<Case> {
    let mut generator = Generator::new(3);
    let first = operand_values(&mut generator, op, dtype, 63, false);
    let second = operand_values(&mut generator, op, dtype, 63, true);
    let start = |name: &str, view: View| {
        CaseBuilder::new(format!("binary/{op:?}/{dtype}/{name}"), Op::Binary { op })
            .output(view.layout(dtype, &[9, 7]))
    };
    let other = View::Transposed.layout(dtype, &[9, 7]);
    vec![
        start("in-place-of-a", View::Dense).in_place(&first).input(other, &second).build(),
        start("in-place-of-b", View::Mixed).input(other, &first).in_place(&second).build(),
        start("in-place-of-both", View::Dense).in_place(&second).again(0).build(),
        start("with-itself", View::Shifted).input(other, &second).again(1).build(),
    ]
}

fn large() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add =
        |op: BinaryOp, dtype: DType, name: &str, shape: &[usize], b: &[usize], view: View| {
            let name = format!("binary/{op:?}/{dtype}/{name}");
            let mut generator = Generator::named(&name);
            let (a, b) = (View::Dense.layout(dtype, shape), View::Dense.layout(dtype, b));
            let a_values = generator.elements(dtype, a.elements(), -5.0, 5.0);
            let b_values = generator.elements(dtype, b.elements(), -5.0, 5.0);
            let case = CaseBuilder::new(name, Op::Binary { op });
            let case = case.input(a, &a_values).input(b, &b_values).outputs(&[view]);
            cases.push(case.build());
        };
    for dtype in [DType::F32, DType::BF16, DType::I32, DType::U8] {
        add(BinaryOp::Add, dtype, "large", &[LARGE], &[LARGE], View::Dense);
        add(BinaryOp::Mul, dtype, "large-by-row", &[317, 331], &[331], View::Dense);
        add(BinaryOp::Sub, dtype, "large-by-column", &[317, 331], &[317, 1], View::Transposed);
    }
    cases
}

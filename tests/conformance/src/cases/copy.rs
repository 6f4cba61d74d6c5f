//! Copies and conversions.

use millstream_core::{DType, Op};

use super::elementwise::GEOMETRIES;
use super::{FLOATS, LARGE, TYPES};
use crate::generator::{special_values, subnormal_values};
use crate::value::limits;
use crate::{Case, CaseBuilder, Generator, Value, View};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for from in TYPES {
        for to in TYPES {
            for geometry in GEOMETRIES {
                // Every layout for plain copies, a few for each conversion.
                let brief =
                    ["row", "mixed", "into-transposed", "row-by-column", "rank-8-mixed", "empty"];
                if from == to || brief.contains(&geometry.name) {
                    let (source, target) = (geometry.a.1.layout(from, geometry.a.0), geometry);
                    let name = format!("copy/{from}-{to}/{}", geometry.name);
                    let values =
                        Generator::named(&name).elements(from, source.elements(), -300.0, 300.0);
                    let output = target.output.layout(to, target.shape);
                    let case = CaseBuilder::new(name, Op::Copy { dtype: to, saturate: true })
                        .output(output);
                    cases.push(case.input(source, &values).build());
                }
            }
            cases.push(values_case(from, to, "special", &conversion_values(from, to)));
            if from.is_float() {
                cases.push(values_case(from, to, "subnormal", &subnormal_values(from)));
            }
        }
        let values = Generator::new(1).elements(from, 12, -9.0, 9.0);
        let layout = View::Mixed.layout(from, &[3, 4]);
        let name = format!("copy/{from}/in-place");
        let case = CaseBuilder::new(name, Op::Copy { dtype: from, saturate: true });
        cases.push(case.output(layout).in_place(&values).build());
    }
    cases.extend(roundings());
    cases.extend(large());
    cases.extend(super::storage::copies());
    cases
}

fn values_case(from: DType, to: DType, name: &str, values: &[Value]) -> Case {
    CaseBuilder::new(format!("copy/{from}-{to}/{name}"), Op::Copy { dtype: to, saturate: true })
        .input(View::Dense.layout(from, &[values.len()]), values)
        .outputs(&[View::Shifted])
        .build()
}

/// The special values of the source, and those next to the limits of the target.
fn conversion_values(from: DType, to: DType) -> Vec<Value> {
    let mut values = special_values(from);
    let (low, high) = (limits(to).0.as_f64(), limits(to).1.as_f64());
    if from.is_float() {
        for edge in [low, high] {
            let near =
                [edge, edge - 0.5, edge + 0.5, edge - 1.0, edge + 1.0, edge * 1.001, edge * 2.0];
            values.extend(near.map(Value::Float));
        }
        values.extend([0.1, 1.0 / 3.0, 65519.0, 65520.0, 2049.0, 2051.0, 257.0].map(Value::Float));
    } else if from.is_int() && from.size() > 2 {
        values.extend(
            [127, 128, 255, 256, 2049, 2051, 65519, 65520, 16_777_217, 16_777_219].map(Value::Int),
        );
    }
    values
}

/// Numbers a little beside a tie, where rounding to `f32` on the way gives another result.
fn roundings() -> Vec<Case> {
    let tie = |bits: i32| 1.0 + 2f64.powi(-bits);
    let beside = |bits: i32| {
        let little = 2f64.powi(-45);
        let steps = 1.0 + 3.0 * 2f64.powi(-bits);
        [tie(bits) + little, tie(bits) - little, steps + little, steps - little, tie(bits), steps]
    };
    let signed = |values: [f64; 6]| -> Vec<Value> {
        values.iter().flat_map(|&value| [Value::Float(value), Value::Float(-value)]).collect()
    };
    let whole = |top: u32, half: u32| -> Vec<Value> {
        let tie = (1i128 << top) + (1i128 << half);
        [tie, tie + 1, tie - 1, -tie - 1, tie + (1 << (half + 1)) - 1].map(Value::Int).to_vec()
    };
    vec![
        values_case(DType::F64, DType::F16, "beside-ties", &signed(beside(11))),
        values_case(DType::F64, DType::BF16, "beside-ties", &signed(beside(8))),
        values_case(DType::F64, DType::F32, "beside-ties", &signed(beside(24))),
        values_case(DType::I32, DType::BF16, "beside-ties", &whole(30, 22)),
        values_case(DType::I64, DType::BF16, "beside-ties", &whole(60, 52)),
        values_case(DType::I64, DType::F32, "beside-ties", &whole(60, 36)),
        values_case(DType::U32, DType::BF16, "beside-ties", &whole(31, 23)),
        values_case(DType::U64, DType::BF16, "beside-ties", &whole(63, 55)),
        values_case(DType::U64, DType::F32, "beside-ties", &whole(63, 39)),
    ]
}

fn large() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add =
        |name: &str, from: DType, to: DType, shape: &[usize], output: View, input: View| {
            let name = format!("copy/{from}-{to}/{name}");
            let input = input.layout(from, shape);
            let values = Generator::named(&name).elements(from, input.elements(), -300.0, 300.0);
            let case = CaseBuilder::new(name, Op::Copy { dtype: to, saturate: true });
            cases.push(case.input(input, &values).outputs(&[output]).build());
        };
    for dtype in [DType::F32, DType::U8, DType::F64, DType::BF16] {
        add("large", dtype, dtype, &[LARGE], View::Dense, View::Shifted);
        add("large-transposed", dtype, dtype, &[317, 331], View::Dense, View::Transposed);
        add("large-permuted", dtype, dtype, &[31, 7, 13, 37], View::Mixed, View::Transposed);
    }
    for from in FLOATS {
        add("large", from, DType::F16, &[LARGE], View::Dense, View::Dense);
    }
    cases
}

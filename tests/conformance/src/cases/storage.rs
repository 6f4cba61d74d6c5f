//! Types that are only stored.

use millstream_core::{DType, Op};

use crate::generator::special_values;
use crate::small::{codes, value};
use crate::{Case, CaseBuilder, Value, View, round_to};

const TYPES: [DType; 8] = [
    DType::F8E4M3FN,
    DType::F8E5M2,
    DType::F8E4M3FNUZ,
    DType::F8E5M2FNUZ,
    DType::F8E8M0,
    DType::I4,
    DType::U4,
    DType::F4E2M1,
];

/// The types that one is cast from and to.
fn others(stored: DType) -> Vec<DType> {
    let mut others = vec![DType::F32, DType::F16, DType::BF16];
    if matches!(stored, DType::I4 | DType::U4) {
        others.extend([DType::I8, DType::U8, DType::I16, DType::I32, DType::U64, DType::I64]);
    }
    others
}

/// Every number of a type, and the first of them again: their number is odd.
fn all(stored: DType) -> Vec<Value> {
    codes(stored).chain([0]).map(|code| value(stored, code)).collect()
}

/// Numbers on both sides of where the rounding changes.
fn around(stored: DType, other: DType) -> Vec<Value> {
    if other.is_int() {
        let mut values = special_values(other);
        values.extend((0..40).map(Value::Int));
        return values;
    }
    let mut numbers: Vec<f64> = match stored {
        DType::I4 | DType::U4 => (-40..=40).map(|twice| f64::from(twice) / 2.0).collect(),
        _ => {
            let known: Vec<f64> = codes(stored).map(|code| value(stored, code).as_f64()).collect();
            let middles: Vec<f64> =
                known.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
            let beside = middles.iter().flat_map(|middle| [middle * 0.99, *middle, middle * 1.01]);
            known.iter().copied().chain(beside).collect()
        }
    };
    numbers.extend([
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        0.1,
        464.0,
        465.0,
        248.0,
    ]);
    numbers.extend([61440.0, 61441.0, 1e9, -1e9, 1e-9, -1e-9, 3.3e38, -3.3e38, 1e-39]);
    numbers.into_iter().map(|number| Value::Float(round_to(other, number))).collect()
}

pub(super) fn copies() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |from: DType, to: DType, values: &[Value], views: [View; 2], saturate: bool| {
        let packed = [from, to].iter().any(|dtype| dtype.per_byte() == 2);
        // Three to a row, so that the order of a transposed operand shows.
        let rows = values.len() / 3;
        for (shape, [output, input]) in
            [(vec![values.len()], [View::Dense; 2]), (vec![rows, 3], views)]
        {
            let name = format!("copy/{from}-{to}/special-{shape:?}-{saturate}-{packed}");
            let values = &values[..shape.iter().product()];
            let case = CaseBuilder::new(name, Op::Copy { dtype: to, saturate });
            cases.push(case.input(input.layout(from, &shape), values).outputs(&[output]).build());
        }
    };
    for stored in TYPES {
        let view = if stored.per_byte() == 2 { View::Dense } else { View::Stepped };
        for other in others(stored) {
            add(stored, other, &all(stored), [View::Transposed, view], true);
            for saturate in [true, false] {
                add(other, stored, &around(stored, other), [view, View::Transposed], saturate);
            }
            add(stored, other, &[], [View::Dense; 2], true);
        }
        let transposed = if stored.per_byte() == 2 { View::Dense } else { View::Transposed };
        add(stored, stored, &all(stored), [view, transposed], true);
    }
    cases
}

pub(super) fn transfers() -> impl Iterator<Item = (DType, Vec<usize>, View, Vec<Value>)> {
    TYPES.into_iter().flat_map(|stored| {
        let values = all(stored);
        let view = if stored.per_byte() == 2 { View::Dense } else { View::Stepped };
        [
            (stored, vec![values.len()], View::Dense, values.clone()),
            (stored, vec![3, 5], view, values[..15].to_vec()),
            (stored, vec![3, 0], View::Dense, Vec::new()),
        ]
    })
}

#[cfg(test)]
mod tests;

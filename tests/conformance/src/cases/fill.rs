//! Fill.

use millstream_core::{DType, Scalar};

use super::{LARGE, TYPES};
use crate::{Case, CaseBuilder, View, ops};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, dtype, shape: &[usize], view: View, value: Scalar| {
        let name = format!("fill/{dtype}/{name}");
        let op = ops::fill(value, dtype, shape);
        cases.push(CaseBuilder::new(name, op).outputs(&[view]).build());
    };
    let shapes: [&[usize]; 8] = [
        &[],
        &[1],
        &[67],
        &[9, 7],
        &[3, 4, 5],
        &[1, 6, 1, 2],
        &[2, 1, 2, 3, 1, 2, 1, 2],
        &[3, 0, 2],
    ];
    for dtype in TYPES {
        for shape in shapes {
            for view in View::WRITABLE {
                let value = if dtype == DType::Bool { Scalar::Bool(true) } else { Scalar::Int(7) };
                add(format!("{view:?}{shape:?}"), dtype, shape, view, value);
            }
        }
        for value in values(dtype) {
            add(format!("special-{value:?}"), dtype, &[5], View::Stepped, value);
        }
    }
    for dtype in [DType::F32, DType::BF16, DType::U8, DType::I64] {
        add("large".into(), dtype, &[LARGE], View::Dense, Scalar::Int(3));
        add("large-transposed".into(), dtype, &[317, 331], View::Transposed, Scalar::Int(3));
    }
    cases
}

fn values(dtype: DType) -> Vec<Scalar> {
    let mut values = vec![Scalar::Bool(false), Scalar::Bool(true), Scalar::Int(0), Scalar::Int(-1)];
    values.push(Scalar::Float(1.75));
    if dtype.is_float() {
        let floats =
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.1, 65519.0, 65520.0, 3.4e38];
        values.extend(floats.map(Scalar::Float));
        // A little above a tie of f16, and of bf16: rounded through f32 these come out lower.
        values.extend([11, 8].map(|bits| Scalar::Float(1.0 + 2f64.powi(-bits) + 2f64.powi(-40))));
    } else {
        // Wrapped to the type.
        values.extend([128, 255, 256, 1 << 31, i64::MAX, i64::MIN].map(Scalar::Int));
        values.extend([u64::MAX, 1 << 63].map(Scalar::UInt));
    }
    values
}

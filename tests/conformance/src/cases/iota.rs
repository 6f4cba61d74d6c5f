//! Numbers in a row.

use millstream_core::{DType, Scalar};

use super::{LARGE, NUMBERS};
use crate::{Case, CaseBuilder, View, ops};

/// Shapes and the axis.
const SHAPES: &[(&[usize], usize)] = &[
    (&[1], 0),
    (&[67], 0),
    (&[5, 33], 1),
    (&[33, 5], 0),
    (&[3, 4, 5], 1),
    (&[2, 1, 2, 3, 1, 2, 1, 2], 3),
    (&[2, 1, 2, 3, 1, 2, 1, 2], 4),
    (&[3, 0, 2], 0),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in NUMBERS {
        for &(shape, axis) in SHAPES {
            for view in [View::Dense, View::Mixed, View::Transposed, View::Stepped] {
                cases.push(case(dtype, shape, axis, (0.into(), 1.into()), view));
            }
        }
        for numbers in [
            (Scalar::Int(7), Scalar::Int(-3)),
            (Scalar::Float(0.1), Scalar::Float(0.3)),
            (Scalar::Float(-2.5), Scalar::Float(1e-3)),
            (Scalar::Int(i64::MAX), Scalar::Int(i64::MAX / 3)),
        ] {
            cases.push(case(dtype, &[2, 301], 1, numbers, View::Shifted));
        }
    }
    for dtype in [DType::F32, DType::I64] {
        let numbers = (Scalar::Float(1.0), Scalar::Float(0.7));
        cases.push(case(dtype, &[LARGE], 0, numbers, View::Dense));
    }
    cases
}

fn case(
    dtype: DType,
    shape: &[usize],
    axis: usize,
    (start, step): (Scalar, Scalar),
    view: View,
) -> Case {
    let name = format!("iota/{dtype}/{shape:?}-{axis}-{start:?}-{step:?}-{view:?}");
    CaseBuilder::new(name, ops::iota(axis, start, step, dtype, shape)).outputs(&[view]).build()
}

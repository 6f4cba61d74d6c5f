//! Reductions.

use millstream_core::{DType, ReduceOp};

use super::{FLOATS, TYPES};
use crate::generator::special_values;
use crate::{Case, CaseBuilder, Generator, Value, View, ops};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in ReduceOp::ALL {
        for dtype in TYPES {
            if op.output(dtype).is_none() {
                continue;
            }
            let recent = is_recent(op, dtype);
            for set in (0..16usize).filter(|set| !recent || [1, 4, 10].contains(set)) {
                let axes: Vec<usize> = (0..4).filter(|axis| set >> axis & 1 == 1).collect();
                for (output, input) in [
                    (View::Dense, View::Dense),
                    (View::Mixed, View::Transposed),
                    (View::Shifted, View::Mixed),
                ] {
                    cases.extend(case(op, dtype, &[3, 2, 4, 5], &axes, output, input));
                }
            }
            for (shape, axes) in SHAPES {
                cases.extend(case(op, dtype, shape, axes, View::Dense, View::Dense));
                if recent {
                    continue;
                }
                cases.extend(case(op, dtype, shape, axes, View::Stepped, View::Stepped));
                cases.extend(case(op, dtype, shape, axes, View::Dense, View::Repeated));
            }
            cases.push(specials(op, dtype));
        }
        // Splitting the work is the same for all types; one reduction tries them all.
        for dtype in FLOATS.into_iter().filter(|&dtype| dtype == DType::F32 || op == ReduceOp::Sum)
        {
            for (shape, axis) in [(&[1, 131_077], 1), (&[317, 331], 0), (&[317, 331], 1)] {
                cases.extend(case(op, dtype, shape, &[axis], View::Dense, View::Dense));
            }
        }
    }
    cases.extend(dropped_axes());
    cases
}

/// Whether few layouts will do, since others of the kind have them all.
fn is_recent(op: ReduceOp, dtype: DType) -> bool {
    match op {
        ReduceOp::Mean | ReduceOp::L2 | ReduceOp::LogSumExp => !dtype.is_float(),
        ReduceOp::ArgMaxLast | ReduceOp::ArgMinLast => true,
        _ => false,
    }
}

/// Long and short rows, single elements, and nothing at all.
const SHAPES: &[(&[usize], &[usize])] = &[
    (&[], &[]),
    (&[1], &[0]),
    (&[67], &[0]),
    (&[1025], &[0]),
    (&[3, 129], &[1]),
    (&[129, 3], &[0]),
    (&[1, 6, 1, 2], &[0, 2]),
    (&[2, 1, 2, 3, 1, 2, 1, 2], &[1, 3, 5, 7]),
    (&[2, 1, 2, 3, 1, 2, 1, 2], &[0, 2, 4, 6]),
    (&[0], &[0]),
    (&[3, 0], &[1]),
    (&[3, 0, 2], &[0]),
    (&[0, 4], &[1]),
];

/// The case, unless the reduction does not exist for these axes.
fn case(
    op: ReduceOp,
    dtype: DType,
    shape: &[usize],
    axes: &[usize],
    output: View,
    input: View,
) -> Option<Case> {
    let kept = |axis: usize| !axes.contains(&axis);
    let nothing_to_combine =
        shape.contains(&0) && (0..shape.len()).all(|axis| !kept(axis) || shape[axis] > 0);
    if op.is_index() && axes.len() != 1 || nothing_to_combine && !op.has_identity() {
        return None;
    }
    let name = format!("reduce/{op:?}/{dtype}/{shape:?}-{axes:?}-{output:?}-{input:?}");
    let source = input.layout(dtype, shape);
    let (low, high) = if op == ReduceOp::Prod { (0.5, 1.8) } else { (-4.0, 4.0) };
    let values = Generator::named(&name).elements(dtype, source.elements(), low, high);
    let case = CaseBuilder::new(name, ops::reduce(op, axes)).input(source, &values);
    Some(case.outputs(&[output]).build())
}

/// Rows of twelve, each with one special value in it at a changing place, then rows full of one.
fn specials(op: ReduceOp, dtype: DType) -> Case {
    let mut generator = Generator::new(11);
    let mut rows = Vec::new();
    // Squares and products of the very largest overflow on the way, which a device may do its own way.
    let special = special_values(dtype);
    let usable = |value: &Value| {
        !value.as_f64().is_finite() || !dtype.is_float() || value.as_f64().abs() < 1e4
    };
    for (at, value) in special.into_iter().filter(usable).enumerate() {
        let mut row = generator.elements(dtype, 12, 0.5, 1.5);
        row[at % 12] = value;
        rows.push(row);
        rows.push(vec![value; 12]);
    }
    if dtype.is_float() {
        let (nan, inf) = (Value::Float(f64::NAN), Value::Float(f64::INFINITY));
        let mut row = vec![Value::Float(f64::NEG_INFINITY); 12];
        row[5] = inf;
        row[11] = nan;
        rows.push(row.clone());
        row[11] = Value::Float(1.0);
        rows.push(row);
    }
    // Ties: the first one counts, or the last.
    let mut row = generator.elements(dtype, 12, 0.5, 1.5);
    row[7] = row[2];
    rows.push(row);
    CaseBuilder::new(format!("reduce/{op:?}/{dtype}/special"), ops::reduce(op, &[1]))
        .input(View::Dense.layout(dtype, &[rows.len(), 12]), &rows.concat())
        .outputs(&[View::Stepped])
        .build()
}

/// Outputs whose reduced axes have a stride that means nothing, as when the axes are dropped.
fn dropped_axes() -> Vec<Case> {
    let shape = [3, 4, 5];
    let layout = |strides: &[usize], shape: &[usize]| {
        millstream_core::Layout::strided(DType::F32, shape, strides, 2).expect("a small layout")
    };
    let outputs = [
        (layout(&[4, 1, 0], &[3, 4, 1]), [2]),
        (layout(&[5, 999, 1], &[3, 1, 5]), [1]),
        (layout(&[0, 1, 4], &[1, 4, 5]), [0]),
    ];
    let build = |(output, axes): (millstream_core::Layout, [usize; 1])| {
        let op = ops::reduce(ReduceOp::Sum, &axes);
        let values = Generator::new(5).elements(DType::F32, 60, -4.0, 4.0);
        CaseBuilder::new(format!("reduce/Sum/f32/dropped-{axes:?}"), op)
            .output(output)
            .input(View::Dense.layout(DType::F32, &shape), &values)
            .build()
    };
    outputs.into_iter().map(build).collect()
}

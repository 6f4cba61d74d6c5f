//! An element's bits depend on its own inputs, not on how many others are computed with it.
//!
//! Batching rests on this: a call that is coalesced with others has to give the very same answer.

use millstream_core::{Activation, Axes, BinaryOp, DType, Op, OpKind, ReduceOp, UnaryOp};

use super::{Property, elements, hold, same};
use crate::cases::{FLOATS, UNARY_OPS, domain};
use crate::{CaseBuilder, Dense, Fault, Generator, Target, Value, View, ops};

pub(super) type Run = fn(&dyn Target) -> Result<(), Fault>;

const PROPERTIES: [(&str, OpKind, Run); 6] = [
    ("unary/bits do not depend on the other elements", OpKind::Unary, unary),
    ("binary/bits do not depend on the other elements", OpKind::Binary, binary),
    ("reduce/bits do not depend on the other rows", OpKind::Reduce, reduce),
    ("softmax/bits do not depend on the other rows", OpKind::Softmax, softmax),
    ("layer_norm/bits do not depend on the other rows", OpKind::LayerNorm, layer_norm),
    ("matmul/bits depend on k alone, not on m, n, batch or layout", OpKind::MatMul, matmul),
];

pub(super) fn properties() -> impl Iterator<Item = Property> {
    let property = |(name, kind, run)| Property { name, kind, bit_identical: true, run };
    PROPERTIES.into_iter().map(property)
}

/// An operand by shape, view and values; outputs have no values.
pub(super) struct Part<'a>(pub &'a [usize], pub View, pub &'a [Value]);

pub(super) fn run(
    target: &dyn Target,
    dtype: DType,
    op: Op,
    output: View,
    inputs: &[Part],
) -> Result<Option<Dense>, Fault> {
    let mut case = CaseBuilder::new(format!("{op:?}"), op);
    for Part(shape, view, values) in inputs {
        case = case.input(view.layout(dtype, shape), values);
    }
    elements(target, &case.outputs(&[output]).build())
}

/// Compares the elements of `whole` from `start` with all of `part`.
pub(super) fn compare(
    what: &str,
    whole: &Option<Dense>,
    start: usize,
    part: &Option<Dense>,
) -> Result<(), Fault> {
    let (Some(whole), Some(part)) = (whole, part) else { return Ok(()) };
    for (at, (&old, &new)) in whole.values[start..].iter().zip(&part.values).enumerate() {
        hold(same(old, new), || {
            format!("{what}: element {} is {old} in the whole and {new} alone", start + at)
        })?;
    }
    Ok(())
}

fn unary(target: &dyn Target) -> Result<(), Fault> {
    const COUNT: usize = 67;
    for &op in UNARY_OPS {
        for dtype in FLOATS {
            if op.output(dtype).is_none() {
                continue;
            }
            let (low, high) = domain(op);
            let values = Generator::new(31).elements(dtype, COUNT, low, high);
            let run = |view, from: usize, to: usize| {
                let (shape, values) = ([to - from], &values[from..to]);
                run(target, dtype, Op::Unary { op }, view, &[Part(&shape, view, values)])
            };
            let whole = run(View::Dense, 0, COUNT)?;
            let what = format!("{op:?} of {dtype}");
            compare(&what, &whole, 0, &run(View::Stepped, 0, COUNT)?)?;
            for (from, to) in [(0, 1), (1, 5), (3, 34), (40, 67), (66, 67)] {
                compare(&what, &whole, from, &run(View::Dense, from, to)?)?;
            }
        }
    }
    large_unary(target)
}

/// The same across the points where a device splits large work.
fn large_unary(target: &dyn Target) -> Result<(), Fault> {
    const COUNT: usize = 40_009;
    for op in [UnaryOp::Exp, UnaryOp::Gelu, UnaryOp::Tanh] {
        let values = Generator::new(37).elements(DType::F32, COUNT, -8.0, 8.0);
        let run = |from: usize, to: usize| {
            let shape = [to - from];
            let part = Part(&shape, View::Dense, &values[from..to]);
            run(target, DType::F32, Op::Unary { op }, View::Dense, &[part])
        };
        let whole = run(0, COUNT)?;
        for from in (0..COUNT).step_by(997) {
            compare(&format!("{op:?}"), &whole, from, &run(from, (from + 997).min(COUNT))?)?;
        }
    }
    Ok(())
}

fn binary(target: &dyn Target) -> Result<(), Fault> {
    for op in [BinaryOp::Div, BinaryOp::Pow, BinaryOp::Mod, BinaryOp::Atan2, BinaryOp::Prelu] {
        for dtype in FLOATS {
            let mut generator = Generator::new(41);
            let (a, b) =
                (generator.elements(dtype, 67, 0.1, 4.0), generator.elements(dtype, 67, -3.0, 3.0));
            let run = |view, from: usize, to: usize| {
                let shape = [to - from];
                let inputs = [Part(&shape, view, &a[from..to]), Part(&shape, view, &b[from..to])];
                run(target, dtype, Op::Binary { op }, view, &inputs)
            };
            let whole = run(View::Dense, 0, 67)?;
            let what = format!("{op:?} of {dtype}");
            compare(&what, &whole, 0, &run(View::Stepped, 0, 67)?)?;
            for (from, to) in [(0, 1), (3, 34), (40, 67), (66, 67)] {
                compare(&what, &whole, from, &run(View::Dense, from, to)?)?;
            }
        }
    }
    Ok(())
}

/// Runs an operation over rows, whole and each row alone.
fn rows(
    target: &dyn Target,
    dtype: DType,
    op: &Op,
    (count, size): (usize, usize),
    parameters: &[&[Value]],
) -> Result<(), Fault> {
    let values = Generator::new(43).elements(dtype, count * size, -2.0, 2.0);
    let run = |from: usize, to: usize| {
        let input = [to - from, size];
        let mut inputs = vec![Part(&input, View::Dense, &values[from * size..to * size])];
        let tail = [size];
        inputs.extend(parameters.iter().map(|values| Part(&tail, View::Dense, values)));
        run(target, dtype, op.clone(), View::Dense, &inputs)
    };
    let whole = run(0, count)?;
    let kept = whole.as_ref().map_or(0, |whole| whole.values.len() / count);
    for row in (0..count).step_by(count.div_ceil(16)) {
        compare(&format!("{op:?} of {dtype}"), &whole, row * kept, &run(row, row + 1)?)?;
    }
    Ok(())
}

const ROWS: [(usize, usize); 4] = [(7, 5), (9, 64), (33, 67), (64, 1500)];

fn reduce(target: &dyn Target) -> Result<(), Fault> {
    let axes = Axes::new(&[1]).map_err(|error| Fault::Run(error.to_string()))?;
    for op in [ReduceOp::Sum, ReduceOp::Mean, ReduceOp::L2, ReduceOp::LogSumExp] {
        for dtype in FLOATS {
            for (count, size) in ROWS {
                rows(target, dtype, &Op::Reduce { op, axes }, (count, size), &[])?;
            }
        }
    }
    Ok(())
}

fn softmax(target: &dyn Target) -> Result<(), Fault> {
    for log in [false, true] {
        for dtype in FLOATS {
            for (count, size) in ROWS {
                rows(target, dtype, &Op::Softmax { axis: 1, log }, (count, size), &[])?;
            }
        }
    }
    Ok(())
}

fn layer_norm(target: &dyn Target) -> Result<(), Fault> {
    let op = Op::LayerNorm { axes: 1, epsilon: 1e-5, weight: true, bias: true };
    for dtype in FLOATS {
        for (count, size) in ROWS {
            let parameters = Generator::new(47).elements(dtype, size, -1.0, 1.0);
            rows(target, dtype, &op, (count, size), &[&parameters, &parameters])?;
        }
    }
    Ok(())
}

fn matmul(target: &dyn Target) -> Result<(), Fault> {
    let op = ops::matmul(1.0, false, false, Activation::None);
    for dtype in FLOATS {
        for (m, n, k) in [(5, 7, 3), (17, 33, 64), (33, 19, 129), (70, 65, 300)] {
            let mut generator = Generator::new(53);
            let a = generator.elements(dtype, m * k, -1.0, 1.0);
            let b = generator.elements(dtype, k * n, -1.0, 1.0);
            let multiply = |a: Part, b: Part, view| run(target, dtype, op.clone(), view, &[a, b]);
            let (dense, transposed) = (View::Dense, View::Transposed);
            let matrix = [k, n];
            let right = |view| Part(&matrix, view, &b);
            let whole = multiply(Part(&[m, k], dense, &a), right(dense), dense)?;
            let what = format!("{dtype} with k = {k}");
            for views in
                [[transposed, dense, dense], [dense, transposed, dense], [dense, dense, transposed]]
            {
                let other = multiply(Part(&[m, k], views[0], &a), right(views[1]), views[2])?;
                compare(&format!("{what} in {views:?}"), &whole, 0, &other)?;
            }
            for row in [0, m / 2, m - 1] {
                let alone = Part(&[1, k], dense, &a[row * k..][..k]);
                let alone = multiply(alone, right(dense), dense)?;
                compare(&format!("{what}, one row"), &whole, row * n, &alone)?;
            }
            // The rows as a batch of single rows, as coalesced calls come.
            let batch = multiply(Part(&[m, 1, k], dense, &a), right(dense), dense)?;
            compare(&format!("{what}, a batch of rows"), &whole, 0, &batch)?;
            let column: Vec<Value> = (0..k).map(|at| b[at * n]).collect();
            let alone = multiply(Part(&[m, k], dense, &a), Part(&[k, 1], dense, &column), dense)?;
            let first = whole.as_ref().map(|whole| Dense {
                values: whole.values.iter().step_by(n).copied().collect(),
                ..whole.clone()
            });
            compare(&format!("{what}, one column"), &first, 0, &alone)?;
        }
    }
    Ok(())
}

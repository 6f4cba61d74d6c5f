//! Operators that combine elements along axes.

use millstream_core::{DType, Op, ReduceOp, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander, Sizes};

use super::common::{Made, axes, axis, cast, each, fill, given_integers, one, reshape, wide};
use super::unary::of_any;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("ArgMax", |node| arg(node, ReduceOp::ArgMax, ReduceOp::ArgMaxLast)),
    ("ArgMin", |node| arg(node, ReduceOp::ArgMin, ReduceOp::ArgMinLast)),
    ("CumProd", |node| running(node, true)),
    ("CumSum", |node| running(node, false)),
    ("ReduceL1", |node| reduce(node, Kind::Plain(ReduceOp::L1))),
    ("ReduceL2", |node| reduce(node, Kind::Plain(ReduceOp::L2))),
    ("ReduceLogSum", |node| reduce(node, Kind::LogSum)),
    ("ReduceLogSumExp", |node| reduce(node, Kind::Plain(ReduceOp::LogSumExp))),
    ("ReduceMax", |node| reduce(node, Kind::Plain(ReduceOp::Max))),
    ("ReduceMean", |node| reduce(node, Kind::Plain(ReduceOp::Mean))),
    ("ReduceMin", |node| reduce(node, Kind::Plain(ReduceOp::Min))),
    ("ReduceProd", |node| reduce(node, Kind::Plain(ReduceOp::Prod))),
    ("ReduceSum", |node| reduce(node, Kind::Plain(ReduceOp::Sum))),
    ("ReduceSumSquare", |node| reduce(node, Kind::SumSquare)),
];

/// How elements are combined.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain(ReduceOp),
    LogSum,
    SumSquare,
}

fn reduce(node: &mut NodeDef<'_, '_>, kind: Kind) -> Made {
    let attribute = node.attributes.ints("axes")?.map(<[i64]>::to_vec);
    let keep = node.attributes.flag("keepdims", true)?;
    let nothing = node.attributes.flag("noop_with_empty_axes", false)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let shape = at.shape(input);
        let given = given_integers(at, &attribute, inputs, 1)?.unwrap_or_default();
        let along = match &given[..] {
            // What is done to single elements is done all the same.
            [] if nothing => Vec::new(),
            [] => (0..shape.len()).collect(),
            given => axes(given, shape.len())?,
        };
        let result = combined(at, kind, input, &along)?;
        if keep {
            return one(result);
        }
        let left: Sizes =
            (0..shape.len()).filter(|axis| !along.contains(axis)).map(|axis| shape[axis]).collect();
        one(reshape(at, result, &left)?)
    })
}

fn combined(at: &mut Expander<'_>, kind: Kind, input: Edge, along: &[usize]) -> Expanded<Edge> {
    let dtype = at.dtype(input);
    match kind {
        // ONNX leaves open what the mean of no elements is: it is 0, as onnxruntime has it, for what was found may be nothing.
        Kind::Plain(ReduceOp::Mean) if along.iter().any(|&axis| at.shape(input)[axis] == 0) => {
            let mut shape = at.shape(input);
            along.iter().for_each(|&axis| shape[axis] = 1);
            fill(at, 0i64, dtype, &shape)
        }
        Kind::Plain(op) => super::common::reduce(at, op, input, along),
        Kind::LogSum => {
            let input = cast(at, input, wide(dtype))?;
            let sum = super::common::reduce(at, ReduceOp::Sum, input, along)?;
            let result = each(at, UnaryOp::Log, sum)?;
            cast(at, result, dtype)
        }
        Kind::SumSquare => {
            // Squares of 16 bits are rounded once, with their sum.
            let computed = if dtype.is_float() { wide(dtype) } else { dtype };
            let input = cast(at, input, computed)?;
            let squares = of_any(at, UnaryOp::Square, input)?;
            let result = super::common::reduce(at, ReduceOp::Sum, squares, along)?;
            cast(at, result, dtype)
        }
    }
}

fn arg(node: &mut NodeDef<'_, '_>, first: ReduceOp, last: ReduceOp) -> Made {
    let along = node.attributes.int_or("axis", 0)?;
    let keep = node.attributes.flag("keepdims", true)?;
    let op = if node.attributes.flag("select_last_index", false)? { last } else { first };
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let along = axis(along, at.rank(input))?;
        let result = super::common::reduce(at, op, input, &[along])?;
        one(if keep { result } else { super::common::squeeze(at, result, along)? })
    })
}

/// Running sums and products.
fn running(node: &mut NodeDef<'_, '_>, product: bool) -> Made {
    let exclusive = node.attributes.flag("exclusive", false)?;
    let reverse = node.attributes.flag("reverse", false)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let along = at.scalar(inputs.tensor(1)?)?.as_i64();
        let axis = axis(along, at.rank(input))? as u8;
        let dtype = at.dtype(input);
        let computed = if matches!(dtype, DType::Bool) { DType::I32 } else { dtype };
        let input = cast(at, input, computed)?;
        one(at.apply(Op::CumSum { axis, exclusive, reverse, product }, &[input])?)
    })
}

#[cfg(test)]
mod tests;

//! Softmax and what is like it.

use millstream_core::{BinaryOp, DType, Op, ReduceOp};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{
    Made, axis, axis_or_end, cast, choose, elements, fill, iota, one, pair, reduce, refuse,
    reshape, with_number,
};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("Hardmax", |node| along_axis(node, hardmax)),
    ("LogSoftmax", |node| along_axis(node, |at, input, axis| softmax(at, input, axis, true))),
    ("LpNormalization", lp_normalization),
    ("Softmax", |node| along_axis(node, |at, input, axis| softmax(at, input, axis, false))),
];

type Along = fn(&mut Expander<'_>, Edge, usize) -> Expanded<Edge>;

/// Up to operator set 12 the input is seen as a matrix: the axes before the given one, and those from it on.
fn along_axis(node: &mut NodeDef<'_, '_>, compute: Along) -> Made {
    let old = node.version < 13;
    let along = node.attributes.int_or("axis", if old { 1 } else { -1 })?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let shape = at.shape(input);
        if !old {
            let along = axis(along, shape.len())?;
            return one(compute(at, input, along)?);
        }
        let along = axis_or_end(along, shape.len())?;
        let flat = [elements(&shape[..along]), elements(&shape[along..])];
        let flat = reshape(at, input, &flat)?;
        let result = compute(at, flat, 1)?;
        one(reshape(at, result, &shape)?)
    })
}

fn softmax(at: &mut Expander<'_>, input: Edge, axis: usize, log: bool) -> Expanded<Edge> {
    at.apply(Op::Softmax { axis: axis as u8, log }, &[input])
}

/// 1 at the first largest element, else 0.
fn hardmax(at: &mut Expander<'_>, input: Edge, axis: usize) -> Expanded<Edge> {
    let shape = at.shape(input);
    let largest = reduce(at, ReduceOp::ArgMax, input, &[axis])?;
    let mut line = vec![1; shape.len()];
    line[axis] = shape[axis];
    let places = iota(at, DType::I64, &line, axis)?;
    let here = pair(at, BinaryOp::Equal, places, largest)?;
    let dtype = at.dtype(input);
    cast(at, here, dtype)
}

/// Where the norm is 0, so is the result.
fn lp_normalization(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", -1)?;
    let p = node.attributes.int_or("p", 2)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let along = axis(along, at.rank(input))?;
        let op = match p {
            1 => ReduceOp::L1,
            2 => ReduceOp::L2,
            _ => return refuse(format!("p is {p}, expected 1 or 2")),
        };
        let norm = reduce(at, op, input, &[along])?;
        let quotient = pair(at, BinaryOp::Div, input, norm)?;
        let nothing = with_number(at, BinaryOp::Equal, norm, 0.0)?;
        let dtype = at.dtype(input);
        let zero = fill(at, 0.0, dtype, &[])?;
        one(choose(at, nothing, zero, quotient)?)
    })
}

//! Functions of single elements, with what is added before.

use millstream_core::{BinaryOp, Op, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander};

use super::super::common::{Made, axis, each, elements, one, pair, refuse, reshape, size, slice};
use super::scaled;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[
    ("BiasAdd", bias_add),
    ("BiasGelu", |node| biased(node, UnaryOp::Gelu)),
    ("BiasSoftmax", bias_softmax),
    ("BiasSplitGelu", bias_split_gelu),
    ("ExpandDims", expand_dims),
    ("FastGelu", |node| biased(node, UnaryOp::GeluTanh)),
    ("Gelu", |node| biased(node, UnaryOp::Gelu)),
    ("QuickGelu", quick_gelu),
];

/// A function of a tensor and a bias, if there is one.
fn biased(node: &mut NodeDef<'_, '_>, op: UnaryOp) -> Made {
    operator(node, move |at, inputs| {
        let mut input = inputs.tensor(0)?;
        if let Some(bias) = inputs.optional(1)? {
            input = pair(at, BinaryOp::Add, input, bias)?;
        }
        one(each(at, op, input)?)
    })
}

/// The sum of a tensor, a bias, and what was skipped to.
fn bias_add(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let sum = pair(at, BinaryOp::Add, inputs.tensor(0)?, inputs.tensor(1)?)?;
        one(pair(at, BinaryOp::Add, sum, inputs.tensor(2)?)?)
    })
}

/// `x · sigmoid(alpha · x)`.
fn quick_gelu(node: &mut NodeDef<'_, '_>) -> Made {
    let alpha = node.attributes.float_or("alpha", 1.702)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        if alpha == 1.0 {
            return one(each(at, UnaryOp::Silu, input)?);
        }
        let steep = scaled(at, input, alpha)?;
        let gate = each(at, UnaryOp::Sigmoid, steep)?;
        one(pair(at, BinaryOp::Mul, input, gate)?)
    })
}

/// One half times the GELU of the other.
fn bias_split_gelu(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let sum = pair(at, BinaryOp::Add, inputs.tensor(0)?, inputs.tensor(1)?)?;
        let shape = at.shape(sum);
        let Some(&width) = shape.last() else { return refuse("a number has no halves") };
        let last = shape.len() - 1;
        let left = slice(at, sum, last, 0, width / 2)?;
        let right = slice(at, sum, last, width / 2, width / 2)?;
        let right = each(at, UnaryOp::Gelu, right)?;
        one(pair(at, BinaryOp::Mul, left, right)?)
    })
}

/// The softmax of a sum, over all axes from one on. The second input repeats along inner or outer axes.
fn bias_softmax(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", 1)?;
    let inner = node.attributes.flag("is_inner_broadcast", true)?;
    operator(node, move |at, inputs| {
        let (input, bias) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let shape = at.shape(input);
        let along = axis(along, shape.len())?;
        let bias = if inner { bias } else { leading(at, bias, shape.len())? };
        let sum = pair(at, BinaryOp::Add, input, bias)?;
        let flat = [elements(&shape[..along]), elements(&shape[along..])];
        let sum = reshape(at, sum, &flat)?;
        let result = at.apply(Op::Softmax { axis: 1, log: false }, &[sum])?;
        one(reshape(at, result, &shape)?)
    })
}

/// Axes of size 1 behind those that are there.
fn leading(at: &mut Expander<'_>, input: Edge, rank: usize) -> Expanded<Edge> {
    let mut shape = at.shape(input);
    while shape.len() < rank {
        shape.push(1);
    }
    reshape(at, input, &shape)
}

fn expand_dims(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let input = inputs.tensor(0)?;
        let mut shape = at.shape(input);
        let given = at.scalar(inputs.tensor(1)?)?.as_i64();
        let place = if given < 0 { given + shape.len() as i64 + 1 } else { given };
        let place = size(place)?;
        if place > shape.len() {
            return refuse(format!("axis {given} of a tensor of rank {}", shape.len() + 1));
        }
        shape.insert(place, 1);
        one(reshape(at, input, &shape)?)
    })
}

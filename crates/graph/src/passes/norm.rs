//! Normalization that files write as several operations.

use millstream_core::{Axes, BinaryOp, Op, ReduceOp, UnaryOp};

use super::rewrite::{Replaced, Rewrite, rewrite};
use crate::Result;
use crate::constant::Folder;
use crate::graph::{Edge, Graph, Node, NodeOp};

pub(super) fn run(graph: &Graph, folder: &Folder) -> Result<Graph> {
    let graph = rewrite(graph, folder, |rewrite, _, node| normalize(rewrite, node))?;
    // A weight, and then a bias, that follow.
    let graph = super::dead::run(&graph)?;
    let graph = rewrite(&graph, folder, |rewrite, _, node| weigh(rewrite, node))?;
    let graph = super::dead::run(&graph)?;
    rewrite(&graph, folder, |rewrite, _, node| shift(rewrite, node))
}

/// `d / sqrt(mean(d²) + epsilon)`, where `d` is `x - mean(x)`, or `x` itself.
fn normalize(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    let candidates = match node.op {
        NodeOp::Op(Op::Binary { op: BinaryOp::Div }) => {
            vec![(node.inputs[0], node.inputs[1], true)]
        }
        NodeOp::Op(Op::Binary { op: BinaryOp::Mul }) => {
            vec![(node.inputs[0], node.inputs[1], false), (node.inputs[1], node.inputs[0], false)]
        }
        _ => return Ok(None),
    };
    for (value, root, divided) in candidates {
        let Some((square, axes, epsilon)) = root_of_mean_square(rewrite, root, divided) else {
            continue;
        };
        if square != value || !rewrite.has_shape_of(value, node) {
            continue;
        }
        let rank = rewrite.old.shape(value).len();
        let count = axes.iter().count();
        let trailing = (rank - count..rank).all(|axis| axes.contains(axis));
        // A norm adds nothing that is negative.
        let is_norm = trailing && count > 0 && epsilon >= 0.0 && epsilon <= f64::from(f32::MAX);
        if !is_norm || !rewrite.old.dtype(value).is_float() {
            continue;
        }
        let (axes_count, epsilon) = (count as u8, epsilon as f32);
        if let Some(centered) = centered(rewrite, value, axes) {
            let op = Op::LayerNorm {
                axes: axes_count,
                epsilon,
                weight: false,
                bias: false,
                moments: false,
            };
            return rewrite.apply(op, &[centered]);
        }
        return rewrite.apply(Op::RmsNorm { axes: axes_count, epsilon, weight: false }, &[value]);
    }
    Ok(None)
}

/// The edge whose mean square an edge is the root of, with the axes and what is added. Where the value is not divided by the
/// root, the edge is one over the root.
fn root_of_mean_square(
    rewrite: &Rewrite<'_>,
    root: Edge,
    divided: bool,
) -> Option<(Edge, Axes, f64)> {
    let sum = if divided {
        square_root(rewrite, root)?
    } else if let Some(root) = rewrite.unary(root, UnaryOp::Reciprocal) {
        square_root(rewrite, root)?
    } else if let Some(sum) = rewrite.unary(root, UnaryOp::Rsqrt) {
        sum
    } else if let Some((one, root)) = rewrite.binary(root, BinaryOp::Div) {
        if rewrite.number(one) != Some(1.0) {
            return None;
        }
        square_root(rewrite, root)?
    } else {
        let (sum, exponent) = rewrite.binary(root, BinaryOp::Pow)?;
        if rewrite.number(exponent) != Some(-0.5) {
            return None;
        }
        sum
    };
    let (mean, epsilon) = rewrite.plus_number(sum)?;
    let (square, axes) = mean_of(rewrite, mean)?;
    Some((rewrite.square_root(square)?, axes, epsilon))
}

fn square_root(rewrite: &Rewrite<'_>, root: Edge) -> Option<Edge> {
    if let Some(sum) = rewrite.unary(root, UnaryOp::Sqrt) {
        return Some(sum);
    }
    let (sum, exponent) = rewrite.binary(root, BinaryOp::Pow)?;
    (rewrite.number(exponent) == Some(0.5)).then_some(sum)
}

/// What an edge is the mean of.
fn mean_of(rewrite: &Rewrite<'_>, edge: Edge) -> Option<(Edge, Axes)> {
    match rewrite.op(edge)? {
        (Op::Reduce { op: ReduceOp::Mean, axes }, node) => Some((node.inputs[0], *axes)),
        _ => None,
    }
}

/// The edge that another is without its mean.
fn centered(rewrite: &Rewrite<'_>, edge: Edge, wanted: Axes) -> Option<Edge> {
    let (value, mean) = rewrite.binary(edge, BinaryOp::Sub)?;
    (mean_of(rewrite, mean)? == (value, wanted)).then_some(value)
}

/// Whether an edge repeats over all but the last axes of another.
fn is_trailing(rewrite: &Rewrite<'_>, weight: Edge, value: Edge, axes: u8) -> bool {
    let (weight, value) = (rewrite.old.shape(weight), rewrite.old.shape(value));
    let axes = usize::from(axes);
    let (lead, tail) = weight.split_at(weight.len().saturating_sub(axes));
    lead.iter().all(|&size| size == 1) && tail.len() <= axes && weight.len() <= value.len()
}

fn weigh(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    let NodeOp::Op(Op::Binary { op: BinaryOp::Mul }) = node.op else { return Ok(None) };
    for (normed, weight) in [(0, 1), (1, 0)] {
        let (normed, weight) = (node.inputs[normed], node.inputs[weight]);
        let Some((_, op, inner)) = rewrite.sole_producer(normed) else { continue };
        let (op, axes) = match *op {
            Op::LayerNorm { axes, epsilon, weight: false, bias: false, moments: false } => {
                (Op::LayerNorm { axes, epsilon, weight: true, bias: false, moments: false }, axes)
            }
            Op::RmsNorm { axes, epsilon, weight: false } => {
                (Op::RmsNorm { axes, epsilon, weight: true }, axes)
            }
            _ => continue,
        };
        if rewrite.has_shape_of(normed, node) && is_trailing(rewrite, weight, normed, axes) {
            let source = inner.inputs[0];
            let weight = flat_weight(rewrite, weight, axes)?;
            let source = rewrite.new_edge(source);
            return rewrite.builder().add(NodeOp::Op(op), &[source, weight]).map(Some);
        }
    }
    Ok(None)
}

/// A weight without the leading axes of size 1 that it has beyond those that are normalized over.
fn flat_weight(rewrite: &mut Rewrite<'_>, weight: Edge, axes: u8) -> Result<Edge> {
    let shape = rewrite.old.shape(weight).to_vec();
    let skip = shape.len().saturating_sub(usize::from(axes));
    let view = crate::view::View::Reshape(crate::view::Sizes::from_slice(&shape[skip..]));
    let weight = rewrite.new_edge(weight);
    rewrite.builder().add_one(NodeOp::View(view), &[weight])
}

fn shift(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    let NodeOp::Op(Op::Binary { op: BinaryOp::Add }) = node.op else { return Ok(None) };
    for (normed, bias) in [(0, 1), (1, 0)] {
        let (normed, bias) = (node.inputs[normed], node.inputs[bias]);
        let Some((_, op, inner)) = rewrite.sole_producer(normed) else { continue };
        let Op::LayerNorm { axes, epsilon, weight, bias: false, moments: false } = *op else {
            continue;
        };
        if rewrite.has_shape_of(normed, node) && is_trailing(rewrite, bias, normed, axes) {
            let op = Op::LayerNorm { axes, epsilon, weight, bias: true, moments: false };
            let inner = inner.inputs.clone();
            let mut inputs: Vec<Edge> =
                inner.iter().map(|&input| rewrite.new_edge(input)).collect();
            inputs.push(flat_weight(rewrite, bias, axes)?);
            return rewrite.builder().add(NodeOp::Op(op), &inputs).map(Some);
        }
    }
    Ok(None)
}

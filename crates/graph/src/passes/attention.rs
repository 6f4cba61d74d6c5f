//! Scaled dot-product attention, of two products and a softmax.

use millstream_core::{
    Activation, AttentionParams, BinaryOp, DType, Epilogue, Op, Scalar, UnaryOp,
};

use super::pattern::Product;
use super::rewrite::{Replaced, Rewrite, rewrite};
use crate::constant::Folder;
use crate::graph::{Edge, Graph, Node, NodeOp};
use crate::view::{Sizes, View};
use crate::{Array, Result};

/// A number that is as good as -∞ where it is added to scores.
const HIDDEN: f64 = -1e30;

/// Views between the products that are looked through.
const VIEWS: usize = 4;

pub(super) fn run(graph: &Graph, folder: &Folder) -> Result<Graph> {
    rewrite(graph, folder, |rewrite, _, node| replace(rewrite, node))
}

/// What the scores of an attention are made of.
struct Scores {
    query: Edge,
    /// With its last two axes exchanged.
    key: Edge,
    scale: f64,
    mask: Option<Mask>,
    /// The edge whose leading axes are batch and heads: a mask is repeated along those that it is added to.
    like: Edge,
}

#[derive(Clone, Copy)]
enum Mask {
    Added(Edge),
    /// Keys are seen where it is true, or where it is false.
    Seen(Edge, bool),
    /// As `Seen`, and what others score instead. Where no key is seen, all count the same.
    Lowered(Edge, bool, Edge),
}

fn replace(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    let NodeOp::Op(Op::MatMul { epilogue }) = node.op else { return Ok(None) };
    if !is_plain(&epilogue) || !rewrite.old.dtype(node.outputs[0]).is_float() {
        return Ok(None);
    }
    let (weights, value) = (node.inputs[0], node.inputs[1]);
    let Some(weights) = through_views(rewrite, weights) else { return Ok(None) };
    let Some(weights) = without_nan_guard(rewrite, weights) else { return Ok(None) };
    let Some((Op::Softmax { axis, log: false }, softmax)) = rewrite.op(weights) else {
        return Ok(None);
    };
    let (scores, rank) = (softmax.inputs[0], rewrite.old.shape(weights).len());
    if usize::from(*axis) + 1 != rank || rewrite.only_use(scores).is_none() {
        return Ok(None);
    }
    let Some(found) = scores_of(rewrite, scores) else { return Ok(None) };
    emit(rewrite, node, &found, value)
}

fn is_plain(epilogue: &Epilogue) -> bool {
    let Epilogue { scale, bias, residual, activation } = *epilogue;
    scale == 1.0 && !bias && !residual && activation == Activation::None
}

/// The edge behind views that keep the last two axes, if nobody else reads what is between.
fn through_views(rewrite: &Rewrite<'_>, edge: Edge) -> Option<Edge> {
    let mut edge = edge;
    for _ in 0..VIEWS {
        rewrite.only_use(edge)?;
        let Some((View::Reshape(_), source)) = rewrite.view(edge) else { return Some(edge) };
        let tail = |edge: Edge| {
            let shape = rewrite.old.shape(edge);
            (shape.len() >= 2).then(|| shape[shape.len() - 2..].to_vec())
        };
        if tail(edge)? != tail(source)? {
            return None;
        }
        edge = source;
    }
    None
}

/// What `where(isnan(x), 0, x)` guards, or the edge itself, if nobody else reads it. A query that sees no key gives zeros
/// with the guard, and anything without.
fn without_nan_guard(rewrite: &Rewrite<'_>, edge: Edge) -> Option<Edge> {
    let guarded = || {
        let (guard, node) = rewrite.old.producer(edge)?;
        let NodeOp::Op(Op::Where) = node.op else { return None };
        let &[is_nan, zero, value] = &node.inputs[..] else { return None };
        let (test, _) = rewrite.old.producer(is_nan)?;
        let guards = rewrite.unary(is_nan, UnaryOp::IsNan)? == value
            && rewrite.number(zero) == Some(0.0)
            && rewrite.only_use(is_nan) == Some(guard);
        (guards && rewrite.uses_within(value, &[guard, test])).then_some(value)
    };
    guarded().or_else(|| rewrite.only_use(edge).map(|_| edge))
}

fn scores_of(rewrite: &Rewrite<'_>, edge: Edge) -> Option<Scores> {
    let edge = through_views(rewrite, edge)?;
    if let Some((a, b)) = rewrite.binary(edge, BinaryOp::Add) {
        let of = |scores: Edge, mask: Edge| {
            let inner = product_of(rewrite, scores)?;
            let fits = rewrite.old.shape(scores) == rewrite.old.shape(edge);
            fits.then_some(Scores { mask: Some(Mask::Added(mask)), like: edge, ..inner })
        };
        return of(a, b).or_else(|| of(b, a));
    }
    if let Some((Op::Where, node)) = rewrite.op(edge) {
        let hidden = |edge: Edge| rewrite.number(edge).is_some_and(|number| number <= HIDDEN);
        let (condition, yes, no) = (node.inputs[0], node.inputs[1], node.inputs[2]);
        let (scores, seen, instead) = if hidden(no) {
            (yes, true, no)
        } else if hidden(yes) {
            (no, false, yes)
        } else {
            return None;
        };
        let inner = product_of(rewrite, scores)?;
        let fits = rewrite.old.shape(scores) == rewrite.old.shape(edge);
        let mask = match rewrite.number(instead) {
            Some(number) if number.is_finite() => Mask::Lowered(condition, seen, instead),
            _ => Mask::Seen(condition, seen),
        };
        return fits.then_some(Scores { mask: Some(mask), like: edge, ..inner });
    }
    product_of(rewrite, edge).map(|found| Scores { like: edge, ..found })
}

/// The scaled product of queries and keys that an edge is.
fn product_of(rewrite: &Rewrite<'_>, edge: Edge) -> Option<Scores> {
    let edge = through_views(rewrite, edge)?;
    let Product { coefficient, factors } = rewrite.product(edge);
    let &[product] = &factors[..] else { return None };
    let product = through_views(rewrite, product)?;
    let (_, Op::MatMul { epilogue }, node) = rewrite.sole_producer(product)? else { return None };
    let plain = is_plain(&Epilogue { scale: 1.0, ..*epilogue });
    if !plain || rewrite.old.shape(node.inputs[0]).len() < 2 {
        return None;
    }
    let mut scale = coefficient * f64::from(epilogue.scale);
    // Numbers by which queries or keys are multiplied go into the scale.
    let mut side = |edge: Edge| {
        let Product { coefficient, factors } = rewrite.product(edge);
        match factors[..] {
            [factor] if rewrite.old.shape(factor) == rewrite.old.shape(edge) => {
                scale *= coefficient;
                factor
            }
            _ => edge,
        }
    };
    let (query, key) = (side(node.inputs[0]), side(node.inputs[1]));
    (scale.is_finite()).then_some(Scores { query, key, scale, mask: None, like: product })
}

/// A tensor of rank 4: leading axes are joined, or added.
fn of_rank_four(rewrite: &mut Rewrite<'_>, edge: Edge, lead: [usize; 2]) -> Result<Option<Edge>> {
    let shape = rewrite.builder().graph.shape(edge).to_vec();
    let (batch, tail) = shape.split_at(shape.len() - 2);
    let count: usize = batch.iter().product();
    if count != lead[0] * lead[1] {
        return Ok(None);
    }
    let view = View::Reshape(Sizes::from_slice(&[lead[0], lead[1], tail[0], tail[1]]));
    rewrite.builder().add_one(NodeOp::View(view), &[edge]).map(Some)
}

/// What attention takes as its mask.
fn mask_edge(rewrite: &mut Rewrite<'_>, mask: Mask) -> Result<Edge> {
    match mask {
        Mask::Added(edge) | Mask::Seen(edge, true) => Ok(rewrite.new_edge(edge)),
        Mask::Seen(edge, false) => {
            let edge = rewrite.new_edge(edge);
            rewrite.builder().add_one(NodeOp::Op(Op::Unary { op: UnaryOp::Not }), &[edge])
        }
        Mask::Lowered(edge, seen, instead) => {
            let (edge, instead) = (rewrite.new_edge(edge), rewrite.new_edge(instead));
            let dtype = rewrite.builder().graph.dtype(instead);
            let zero = Array::of_scalars(dtype, &[], &[Scalar::from(0f32)])?;
            let zero = rewrite.folder().constant(zero);
            let zero = rewrite.builder().graph.add_constant(zero);
            let (yes, no) = if seen { (zero, instead) } else { (instead, zero) };
            rewrite.builder().add_one(NodeOp::Op(Op::Where), &[edge, yes, no])
        }
    }
}

fn emit(rewrite: &mut Rewrite<'_>, node: &Node, found: &Scores, value: Edge) -> Replaced {
    let shape = rewrite.old.shape(found.like).to_vec();
    let lead = match shape[..] {
        [batch, heads, _, _] => [batch, heads],
        [heads, _, _] => [1, heads],
        [_, _] => [1, 1],
        _ => return Ok(None),
    };
    // Leading axes may be repeated for the values, which have as many of them.
    let (queries, values) = (rewrite.old.shape(found.query), rewrite.old.shape(value));
    let rows = queries[queries.len() - 2];
    let elements: usize = lead.iter().product::<usize>() * rows * values[values.len() - 1];
    if elements != rewrite.old.shape(node.outputs[0]).iter().product::<usize>() {
        return Ok(None);
    }
    // The scale is a number of 32 bits.
    let scale = found.scale as f32;
    let is_exact =
        f64::from(scale) == found.scale || rewrite.old.dtype(node.outputs[0]) != DType::F64;
    if !scale.is_finite() || !is_exact {
        return Ok(None);
    }
    let (query, key) = (rewrite.new_edge(found.query), rewrite.new_edge(found.key));
    let rank = rewrite.builder().graph.shape(key).len();
    let mut order: Sizes = (0..rank).collect();
    order.swap(rank - 1, rank - 2);
    let key = rewrite.builder().add_one(NodeOp::View(View::Permute(order)), &[key])?;
    let value = rewrite.new_edge(value);
    let mut inputs = Vec::with_capacity(4);
    for edge in [query, key, value] {
        match of_rank_four(rewrite, edge, lead)? {
            Some(edge) => inputs.push(edge),
            None => return Ok(None),
        }
    }
    if let Some(mask) = found.mask {
        let edge = mask_edge(rewrite, mask)?;
        let mut wide = Sizes::from_slice(rewrite.builder().graph.shape(edge));
        if wide.len() > 4 {
            return Ok(None);
        }
        while wide.len() < 4 {
            wide.insert(0, 1);
        }
        inputs.push(rewrite.builder().add_one(NodeOp::View(View::Reshape(wide)), &[edge])?);
    }
    let mut params = AttentionParams::new(scale);
    params.mask = found.mask.is_some();
    let made = rewrite.builder().add_one(NodeOp::Op(Op::Attention { params }), &inputs)?;
    let back = View::Reshape(Sizes::from_slice(rewrite.old.shape(node.outputs[0])));
    rewrite.builder().add(NodeOp::View(back), &[made]).map(Some)
}

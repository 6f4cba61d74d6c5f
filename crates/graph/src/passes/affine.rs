//! Constants that a product or convolution is multiplied by, or that are added to it or to its input, go into its weights.

use millstream_core::{
    Activation, Axes, BinaryOp, ConvParams, DType, Epilogue, Op, ReduceOp, Scalar, UnaryOp,
};
use smallvec::SmallVec;

use super::rewrite::{Replaced, Rewrite, rewrite};
use crate::Result;
use crate::constant::Folder;
use crate::graph::{Edge, Graph, Node, NodeOp};
use crate::view::{Sizes, View};

/// Constants that may follow each other.
const ROUNDS: usize = 4;

pub(super) fn run(graph: &Graph, folder: &Folder) -> Result<Graph> {
    let mut graph = super::dead::run(graph)?;
    for _ in 0..ROUNDS {
        let before = graph.nodes().len();
        graph =
            super::dead::run(&rewrite(&graph, folder, |rewrite, _, node| behind(rewrite, node))?)?;
        graph =
            super::dead::run(&rewrite(&graph, folder, |rewrite, _, node| ahead(rewrite, node))?)?;
        if graph.nodes().len() == before {
            break;
        }
    }
    Ok(graph)
}

/// A product with constant weights, and a constant bias or none, that nothing else was joined with.
struct Product {
    op: Op,
    source: Edge,
    weight: Edge,
    bias: Option<Edge>,
    /// The axis of the output channels, in the result and in the weights.
    channel_axis: usize,
    weight_axis: usize,
    channels: usize,
}

fn product(rewrite: &Rewrite<'_>, op: &Op, node: &Node) -> Option<Product> {
    let (epilogue, weight_axis) = match op {
        Op::MatMul { epilogue } => (epilogue, 1),
        Op::Conv { epilogue, .. } => (epilogue, 0),
        Op::ConvTranspose { epilogue, params } if params.groups == 1 => (epilogue, 1),
        _ => return None,
    };
    let Epilogue { scale, bias, residual, activation } = *epilogue;
    let (source, weight) = (node.inputs[0], node.inputs[1]);
    let bias = if bias { Some(*node.inputs.get(2)?) } else { None };
    let is_matmul = matches!(op, Op::MatMul { .. });
    let plain = scale == 1.0 && !residual && activation == Activation::None;
    let constant = |edge: Edge| rewrite.constant(edge).is_some();
    let weights = rewrite.old.shape(weight);
    let fits = plain
        && constant(weight)
        && bias.is_none_or(|bias| constant(bias) && rewrite.old.shape(bias).len() == 1)
        && (!is_matmul || weights.len() == 2)
        && rewrite.old.dtype(weight).is_float();
    let rank = rewrite.old.shape(node.outputs[0]).len();
    let channel_axis = if is_matmul { rank - 1 } else { 1 };
    fits.then(|| Product {
        op: op.clone(),
        source,
        weight,
        bias,
        channel_axis,
        weight_axis,
        channels: weights[weight_axis],
    })
}

/// A constant with one number for each channel of a result, as a vector; one number is repeated.
fn per_channel(
    rewrite: &mut Rewrite<'_>,
    constant: Edge,
    rank: usize,
    (axis, channels): (usize, usize),
) -> Result<Option<Edge>> {
    if rewrite.constant(constant).is_none() {
        return Ok(None);
    }
    let shape = rewrite.old.shape(constant).to_vec();
    if shape.len() > rank {
        return Ok(None);
    }
    let first = rank - shape.len();
    let fits = shape
        .iter()
        .enumerate()
        .all(|(at, &size)| size == 1 || (first + at == axis && size == channels));
    if !fits {
        return Ok(None);
    }
    let count: usize = shape.iter().product();
    let edge = rewrite.new_edge(constant);
    let flat = View::Reshape(Sizes::from_slice(&[count]));
    let edge = rewrite.builder().add_one(NodeOp::View(flat), &[edge])?;
    let wide = View::Broadcast(Sizes::from_slice(&[channels]));
    rewrite.builder().add_one(NodeOp::View(wide), &[edge]).map(Some)
}

fn binary(rewrite: &mut Rewrite<'_>, op: BinaryOp, a: Edge, b: Edge) -> Result<Edge> {
    rewrite.builder().add_one(NodeOp::Op(Op::Binary { op }), &[a, b])
}

/// A vector along one axis of a tensor of this rank.
fn along(rewrite: &mut Rewrite<'_>, vector: Edge, axis: usize, rank: usize) -> Result<Edge> {
    let mut shape = Sizes::from_elem(1, rank);
    shape[axis] = rewrite.builder().graph.shape(vector)[0];
    rewrite.builder().add_one(NodeOp::View(View::Reshape(shape)), &[vector])
}

/// Factors that weights of a type may have: beyond, weights could become infinite or too small where what they make would
/// not.
fn factors(dtype: DType) -> std::ops::RangeInclusive<f64> {
    let most = if dtype == DType::F16 { 64.0 } else { 1e18 };
    1.0 / most..=most
}

/// Whether weights may be multiplied by a constant, or divided by it, or be multiplied by it to add it ahead of them: what is
/// infinite or NaN there would become NaN for rows that have none of it. Its numbers are read, so it should be one for each channel.
fn is_harmless(rewrite: &Rewrite<'_>, op: BinaryOp, constant: Edge) -> Result<bool> {
    let Some(known) = rewrite.constant(constant) else { return Ok(false) };
    let factors = factors(known.spec().dtype());
    let fits = |number: f64| match op {
        BinaryOp::Div => factors.contains(&number.abs()),
        BinaryOp::Mul => number == 0.0 || factors.contains(&number.abs()),
        _ => number.is_finite(),
    };
    let numbers = known.array(rewrite.folder())?.to_scalars()?;
    Ok(numbers.into_iter().map(Scalar::as_f64).all(fits))
}

/// A constant behind a product.
fn behind(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    let NodeOp::Op(Op::Binary { op }) = node.op else { return Ok(None) };
    let sides: SmallVec<[(usize, usize); 2]> = match op {
        BinaryOp::Add | BinaryOp::Mul => SmallVec::from_slice(&[(0, 1), (1, 0)]),
        BinaryOp::Sub | BinaryOp::Div => SmallVec::from_slice(&[(0, 1)]),
        _ => return Ok(None),
    };
    for (made, constant) in sides {
        let (made, constant) = (node.inputs[made], node.inputs[constant]);
        if !rewrite.has_shape_of(made, node) {
            continue;
        }
        let Some((_, inner, producer)) = rewrite.sole_producer(made) else { continue };
        let Some(found) = product(rewrite, inner, producer) else { continue };
        let rank = rewrite.old.shape(made).len();
        let channels = (found.channel_axis, found.channels);
        let Some(vector) = per_channel(rewrite, constant, rank, channels)? else { continue };
        if matches!(op, BinaryOp::Mul | BinaryOp::Div) && !is_harmless(rewrite, op, constant)? {
            continue;
        }
        return with_constant(rewrite, &found, op, vector).map(Some);
    }
    Ok(None)
}

fn with_constant(
    rewrite: &mut Rewrite<'_>,
    found: &Product,
    op: BinaryOp,
    vector: Edge,
) -> Result<SmallVec<[Edge; 1]>> {
    let (source, mut weight) = (rewrite.new_edge(found.source), rewrite.new_edge(found.weight));
    let mut bias = found.bias.map(|bias| rewrite.new_edge(bias));
    match op {
        BinaryOp::Mul | BinaryOp::Div => {
            let rank = rewrite.old.shape(found.weight).len();
            let factor = along(rewrite, vector, found.weight_axis, rank)?;
            weight = binary(rewrite, op, weight, factor)?;
            bias = bias.map(|bias| binary(rewrite, op, bias, vector)).transpose()?;
        }
        _ => {
            // Nothing is computed of a vector by itself: it may be infinite, as for what is not to be chosen.
            bias = Some(match (bias, op) {
                (Some(bias), _) => binary(rewrite, op, bias, vector)?,
                (None, BinaryOp::Sub) => {
                    let negated = NodeOp::Op(Op::Unary { op: UnaryOp::Neg });
                    rewrite.builder().add(negated, &[vector])?[0]
                }
                (None, _) => vector,
            });
        }
    }
    emit(rewrite, found, source, weight, bias)
}

fn emit(
    rewrite: &mut Rewrite<'_>,
    found: &Product,
    source: Edge,
    weight: Edge,
    bias: Option<Edge>,
) -> Result<SmallVec<[Edge; 1]>> {
    let mut op = found.op.clone();
    if let Op::MatMul { epilogue }
    | Op::Conv { epilogue, .. }
    | Op::ConvTranspose { epilogue, .. } = &mut op
    {
        epilogue.bias = bias.is_some();
    }
    let inputs: SmallVec<[Edge; 3]> = [source, weight].into_iter().chain(bias).collect();
    rewrite.builder().add(NodeOp::Op(op), &inputs)
}

/// Whether every tap of a convolution always sees the input, never padding.
fn is_unpadded(params: &ConvParams) -> bool {
    params.pad_before.iter().chain(&params.pad_after).all(|&pad| pad == 0)
}

/// A constant ahead of a convolution in one group, or of a product.
fn ahead(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    let NodeOp::Op(op) = &node.op else { return Ok(None) };
    let unpadded = match op {
        Op::MatMul { .. } => true,
        Op::Conv { params, .. } if params.groups == 1 => is_unpadded(params),
        _ => return Ok(None),
    };
    let Some(mut found) = product(rewrite, op, node) else { return Ok(None) };
    let (input_axis, weight_axis) = match op {
        Op::MatMul { .. } => (rewrite.old.shape(found.source).len() - 1, 0),
        _ => (1, 1),
    };
    let (_, Op::Binary { op }, inner) = (match rewrite.sole_producer(found.source) {
        Some(producer) => producer,
        None => return Ok(None),
    }) else {
        return Ok(None);
    };
    let op = *op;
    let sides: &[(usize, usize)] = match op {
        BinaryOp::Mul => &[(0, 1), (1, 0)],
        // The sum of all weights times a constant may be far larger than any result: 16 bits say it too roughly.
        BinaryOp::Add if unpadded && rewrite.old.dtype(found.weight).size() >= 4 => {
            &[(0, 1), (1, 0)]
        }
        _ => return Ok(None),
    };
    let inner = inner.clone();
    let shape = rewrite.old.shape(found.source).to_vec();
    for &(value, constant) in sides {
        let (value, constant) = (inner.inputs[value], inner.inputs[constant]);
        if rewrite.old.shape(value) != shape {
            continue;
        }
        let channels = (input_axis, shape[input_axis]);
        let Some(vector) = per_channel(rewrite, constant, shape.len(), channels)? else { continue };
        if !is_harmless(rewrite, op, constant)? {
            continue;
        }
        let weight = rewrite.new_edge(found.weight);
        let rank = rewrite.old.shape(found.weight).len();
        let factor = along(rewrite, vector, weight_axis, rank)?;
        let scaled = binary(rewrite, BinaryOp::Mul, weight, factor)?;
        found.source = value;
        let source = rewrite.new_edge(value);
        let bias = found.bias.map(|bias| rewrite.new_edge(bias));
        if op == BinaryOp::Mul {
            return emit(rewrite, &found, source, scaled, bias).map(Some);
        }
        // What the constant adds to every result.
        let others: Vec<usize> = (0..rank).filter(|&axis| axis != found.weight_axis).collect();
        let sum = Op::Reduce { op: ReduceOp::Sum, axes: Axes::new(&others)? };
        let added = rewrite.builder().add_one(NodeOp::Op(sum), &[scaled])?;
        let flat = View::Reshape(Sizes::from_slice(&[found.channels]));
        let added = rewrite.builder().add_one(NodeOp::View(flat), &[added])?;
        let bias = match bias {
            Some(bias) => binary(rewrite, BinaryOp::Add, bias, added)?,
            None => added,
        };
        return emit(rewrite, &found, source, weight, Some(bias)).map(Some);
    }
    Ok(None)
}

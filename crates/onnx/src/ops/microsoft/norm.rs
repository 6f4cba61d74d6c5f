//! Normalization of sums.

use millstream_core::{BinaryOp, DType, Op, ReduceOp, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander, Value};

use super::super::common::{
    Made, axis, broadcast, cast, each, fill, iota, one, pair, permute, reduce, refuse, reshape,
    slice, squeeze, with_number,
};
use super::Quantized;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[
    ("EmbedLayerNormalization", |node| embed(node, false)),
    ("GroupNorm", |node| group_norm(node, false)),
    ("QEmbedLayerNormalization", |node| embed(node, true)),
    ("SimplifiedLayerNormalization", simplified),
    ("SkipGroupNorm", |node| group_norm(node, true)),
    ("SkipLayerNormalization", |node| skip(node, true)),
    ("SkipSimplifiedLayerNormalization", |node| skip(node, false)),
];

/// ONNX Runtime has this one in ONNX's own domain.
pub(crate) const SIMPLIFIED: Table = &[("SimplifiedLayerNormalization", simplified)];

/// Layer norm over the last axes: the result, and mean and inverse standard deviation if they are wanted.
fn layer_norm(
    at: &mut Expander<'_>,
    input: Edge,
    weight: Edge,
    bias: Option<Edge>,
    epsilon: f32,
    moments: bool,
) -> Expanded<Vec<Edge>> {
    let op = Op::LayerNorm { axes: 1, epsilon, weight: true, bias: bias.is_some(), moments };
    let given: Vec<Edge> = [input, weight].into_iter().chain(bias).collect();
    Ok(at.apply_all(op, &given)?.to_vec())
}

/// `1 / sqrt(mean(x²) + epsilon)` over the last axes, in `f32`.
fn inverse_root(at: &mut Expander<'_>, input: Edge, axes: usize, epsilon: f32) -> Expanded<Edge> {
    let rank = at.rank(input);
    let over: Vec<usize> = (rank - axes..rank).collect();
    let input = cast(at, input, DType::F32)?;
    let squares = each(at, UnaryOp::Square, input)?;
    let mean = reduce(at, ReduceOp::Mean, squares, &over)?;
    let mean = with_number(at, BinaryOp::Add, mean, epsilon)?;
    each(at, UnaryOp::Rsqrt, mean)
}

/// The norm of a sum of two tensors and a bias. The sum is the fourth output.
fn skip(node: &mut NodeDef<'_, '_>, mean: bool) -> Made {
    let epsilon = node.attributes.float_or("epsilon", 1e-12)?;
    operator(node, move |at, inputs| {
        let (input, weight) = (inputs.tensor(0)?, inputs.tensor(2)?);
        let (beta, bias) = match mean {
            true => (inputs.optional(3)?, inputs.optional(4)?),
            false => (None, inputs.optional(3)?),
        };
        // What is skipped to repeats over batches.
        let mut sum = pair(at, BinaryOp::Add, input, inputs.tensor(1)?)?;
        if let Some(bias) = bias {
            sum = pair(at, BinaryOp::Add, sum, bias)?;
        }
        let wants = at.wants(1) || at.wants(2);
        let mut results = match mean {
            true => layer_norm(at, sum, weight, beta, epsilon, wants)?,
            false => {
                let op = Op::RmsNorm { axes: 1, epsilon, weight: true };
                vec![at.apply(op, &[sum, weight])?]
            }
        };
        if !mean && wants {
            let inverse = inverse_root(at, sum, 1, epsilon)?;
            // The mean is not subtracted.
            let shape = at.shape(inverse);
            results.push(fill(at, 0.0f32, DType::F32, &shape)?);
            results.push(inverse);
        }
        results.resize(3, sum);
        results.push(sum);
        Ok(results.into_iter().map(Value::Tensor).collect())
    })
}

/// RMS norm, and the inverse root as the second output.
fn simplified(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", -1)?;
    let epsilon = node.attributes.float_or("epsilon", 1e-5)?;
    node.attributes.ignore(&["stash_type"]);
    operator(node, move |at, inputs| {
        let (input, weight) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let rank = at.rank(input);
        let axes = rank - axis(along, rank)?;
        let dtype = at.dtype(weight);
        let own = cast(at, input, dtype)?;
        let op = Op::RmsNorm { axes: axes as u8, epsilon, weight: true };
        let mut results = vec![Value::Tensor(at.apply(op, &[own, weight])?)];
        if at.wants(1) {
            results.push(Value::Tensor(inverse_root(at, input, axes, epsilon)?));
        }
        Ok(results)
    })
}

/// The sum of the embeddings of words, places and segments, normalized. Tables, weight and bias may be 8-bit numbers.
fn embed(node: &mut NodeDef<'_, '_>, integers: bool) -> Made {
    let epsilon = node.attributes.float_or("epsilon", 1e-12)?;
    node.attributes.ignore(&["mask_index_type"]);
    operator(node, move |at, inputs| {
        let ids = inputs.tensor(0)?;
        let &[batch, length] = &at.shape(ids)[..] else { return refuse("ids need two axes") };
        // What those of an input stand for.
        let numbers = |at: &mut Expander<'_>, values: Edge, input: usize| -> Expanded<Edge> {
            if !integers {
                return Ok(values);
            }
            let (scale, zero) = (inputs.tensor(input + 6)?, inputs.optional(input + 11)?);
            Quantized { values, scale, zero }.numbers(at)
        };
        let rows = |at: &mut Expander<'_>, input: usize, which: Edge| -> Expanded<Edge> {
            let rows = at.apply(Op::Gather { axis: 0 }, &[inputs.tensor(input)?, which])?;
            numbers(at, rows, input)
        };
        let positions = match inputs.optional(8)? {
            Some(positions) if !integers => broadcast(at, positions, &[batch, length])?,
            _ => iota(at, DType::I64, &[batch, length], 1)?,
        };
        let mut sum = rows(at, 2, ids)?;
        let at_places = rows(at, 3, positions)?;
        sum = pair(at, BinaryOp::Add, sum, at_places)?;
        if let Some(table) = inputs.optional(4)? {
            let of_segments = match inputs.optional(1)? {
                Some(segments) => rows(at, 4, segments)?,
                // All are of the first segment.
                None => {
                    let first = slice(at, table, 0, 0, 1)?;
                    numbers(at, first, 4)?
                }
            };
            sum = pair(at, BinaryOp::Add, sum, of_segments)?;
        }
        let weight = numbers(at, inputs.tensor(5)?, 5)?;
        let bias = numbers(at, inputs.tensor(6)?, 6)?;
        let normal = layer_norm(at, sum, weight, Some(bias), epsilon, false)?[0];
        // How many words of each sentence count.
        let counts = match inputs.optional(7)? {
            Some(mask) => {
                let one = at.number(1i64, at.dtype(mask))?;
                let counted = pair(at, BinaryOp::Equal, mask, one)?;
                let counted = cast(at, counted, DType::I32)?;
                let counts = reduce(at, ReduceOp::Sum, counted, &[1])?;
                squeeze(at, counts, 1)?
            }
            None => fill(at, 0i64, DType::I32, &[batch])?,
        };
        Ok([normal, counts, sum].into_iter().map(Value::Tensor).collect())
    })
}

/// Group norm, channels last unless said otherwise, with what is added before, and SiLU behind.
fn group_norm(node: &mut NodeDef<'_, '_>, added: bool) -> Made {
    let attributes = &node.attributes;
    let epsilon = attributes.float_or("epsilon", 1e-5)?;
    let groups = attributes.int_or("groups", 1)?;
    let silu = attributes.flag("activation", false)?;
    let last = attributes.flag("channels_last", true)?;
    operator(node, move |at, inputs| {
        let (mut input, weight, bias) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        if added {
            let mut skipped = inputs.tensor(3)?;
            // One number for each channel of a picture repeats over it.
            if let (&[n, c], 4) = (&at.shape(skipped)[..], at.rank(input)) {
                let wide = if last { [n, 1, 1, c] } else { [n, c, 1, 1] };
                skipped = reshape(at, skipped, &wide)?;
            }
            input = pair(at, BinaryOp::Add, input, skipped)?;
            if let Some(more) = inputs.optional(4)? {
                input = pair(at, BinaryOp::Add, input, more)?;
            }
        }
        let sum = input;
        let rank = at.rank(input);
        if rank < 3 {
            return refuse("places and channels are needed");
        }
        let forth: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
        let back: Vec<usize> = std::iter::once(0).chain(2..rank).chain([1]).collect();
        if last {
            input = permute(at, input, &forth)?;
        }
        let Ok(groups) = u32::try_from(groups) else { return refuse("a number of groups") };
        let dtype = at.dtype(input);
        let (weight, bias) = (cast(at, weight, dtype)?, cast(at, bias, dtype)?);
        let op = Op::GroupNorm { groups, epsilon, weight: true, bias: true };
        let mut result = at.apply(op, &[input, weight, bias])?;
        if silu {
            result = each(at, UnaryOp::Silu, result)?;
        }
        if last {
            result = permute(at, result, &back)?;
        }
        if added {
            return Ok([result, sum].into_iter().map(Value::Tensor).collect());
        }
        one(result)
    })
}

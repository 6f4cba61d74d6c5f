//! Attention with its products, and with keys and values of earlier calls.

use millstream_core::{Alignment, AttentionParams, BinaryOp, DType, KeyWindow, Op};
use millstream_graph::{Edge, Expanded, Expander, Value};

use super::super::common::{
    Made, broadcast, cast, choose, fill, iota, pair, permute, refuse, reshape, size, slice,
    squeeze, unsqueeze,
};
use super::super::product::multiplied;
use super::Quantized;
use super::linear::{plus, product};
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[
    ("Attention", |node| attention(node, false)),
    ("MultiHeadAttention", multi_head),
    ("QAttention", |node| attention(node, true)),
];

/// What the attention operators have in common.
#[derive(Clone, Copy, Debug)]
struct Settings {
    heads: usize,
    scale: Option<f32>,
    /// What is added to the scores of keys that are not seen.
    hidden: f32,
    causal: bool,
}

impl Settings {
    fn of(node: &NodeDef<'_, '_>) -> crate::Result<Self> {
        let attributes = &node.attributes;
        let heads = attributes.int_or("num_heads", 0)?;
        let Some(heads) = usize::try_from(heads).ok().filter(|heads| *heads > 0) else {
            return Err(super::refusal(format!("num_heads is {heads}")));
        };
        Ok(Self {
            heads,
            scale: attributes.float("scale")?.filter(|scale| *scale != 0.0),
            hidden: attributes.float_or("mask_filter_value", -10000.0)?,
            causal: attributes.flag("unidirectional", false)?,
        })
    }
}

/// `[batch, length, heads · size]` as `[batch, heads, length, size]`.
pub(super) fn split_heads(at: &mut Expander<'_>, input: Edge, heads: usize) -> Expanded<Edge> {
    let &[batch, length, width] = &at.shape(input)[..] else {
        return refuse(format!("{:?} is not batch, length and width", &at.shape(input)[..]));
    };
    if heads == 0 || width % heads != 0 {
        return refuse(format!("{heads} heads of a width of {width}"));
    }
    let split = reshape(at, input, &[batch, length, heads, width / heads])?;
    permute(at, split, &[0, 2, 1, 3])
}

/// The way back.
pub(super) fn join_heads(at: &mut Expander<'_>, input: Edge) -> Expanded<Edge> {
    let joined = permute(at, input, &[0, 2, 1, 3])?;
    let &[batch, length, heads, size] = &at.shape(joined)[..] else {
        return refuse("heads that were not split");
    };
    reshape(at, joined, &[batch, length, heads * size])
}

/// Queries, keys and values with heads, and how many keys there were before.
struct Scores {
    query: Edge,
    key: Edge,
    value: Edge,
    past: usize,
}

/// What is added to scores: a mask of keys, and a bias.
fn added(
    at: &mut Expander<'_>,
    scores: &Scores,
    settings: Settings,
    mask: Option<Edge>,
    bias: Option<Edge>,
) -> Expanded<Option<Edge>> {
    let mask = match mask {
        Some(mask) => Some(key_mask(at, scores, settings.hidden, mask)?),
        None => None,
    };
    let dtype = at.dtype(scores.query);
    let bias = bias.map(|bias| cast(at, bias, dtype)).transpose()?;
    match (mask, bias) {
        (Some(mask), Some(bias)) => Ok(Some(pair(at, BinaryOp::Add, mask, bias)?)),
        (mask, bias) => Ok(mask.or(bias)),
    }
}

/// What a mask of keys adds to scores, with four axes. It has one of many shapes.
fn key_mask(at: &mut Expander<'_>, scores: &Scores, hidden: f32, mask: Edge) -> Expanded<Edge> {
    let (batch, queries) = (at.shape(scores.query)[0], at.shape(scores.query)[2]);
    let keys = at.shape(scores.key)[2];
    let shape = at.shape(mask);
    let seen = match shape[..] {
        // The number of keys, and the first one. The long form is the number, and where queries and keys begin
        // once padding is taken out: here it is not.
        [count] if count == batch || count == 2 * batch || count == 3 * batch + 2 => {
            let places = iota(at, at.dtype(mask), &[batch, keys], 1)?;
            let ends = slice(at, mask, 0, 0, batch)?;
            let ends = unsqueeze(at, ends, 1)?;
            let mut seen = pair(at, BinaryOp::Less, places, ends)?;
            if count == 2 * batch {
                let starts = slice(at, mask, 0, batch, batch)?;
                let starts = unsqueeze(at, starts, 1)?;
                let begun = pair(at, BinaryOp::GreaterEqual, places, starts)?;
                seen = pair(at, BinaryOp::And, seen, begun)?;
            }
            reshape(at, seen, &[batch, 1, 1, keys])?
        }
        [own, width] if own == batch && width == keys => {
            let seen = truth(at, mask)?;
            reshape(at, seen, &[batch, 1, 1, keys])?
        }
        [own, rows, width] if own == batch && rows == queries && width == keys => {
            let seen = truth(at, mask)?;
            reshape(at, seen, &[batch, 1, queries, keys])?
        }
        // A mask for all lengths that there may be.
        [own, 1, rows, width] if own == batch && rows >= keys && width >= keys => {
            let seen = truth(at, mask)?;
            let seen = slice(at, seen, 2, scores.past, queries)?;
            slice(at, seen, 3, 0, keys)?
        }
        _ => {
            return refuse(format!(
                "a mask of shape {:?} for {batch} batches, {queries} queries and {keys} keys",
                &shape[..]
            ));
        }
    };
    let dtype = at.dtype(scores.query);
    let (nothing, hidden) = (at.number(0.0f32, dtype)?, at.number(hidden, dtype)?);
    choose(at, seen, nothing, hidden)
}

fn truth(at: &mut Expander<'_>, mask: Edge) -> Expanded<Edge> {
    cast(at, mask, DType::Bool)
}

/// The attention itself, with heads joined again.
fn attended(
    at: &mut Expander<'_>,
    scores: &Scores,
    settings: Settings,
    added: Option<Edge>,
) -> Expanded<Edge> {
    let size = at.shape(scores.query)[3];
    let scale = settings.scale.unwrap_or(1.0 / (size as f32).sqrt());
    let offset = scores.past as i64;
    let window = match settings.causal {
        true => KeyWindow::causal(Alignment::Start { offset }),
        false => KeyWindow::ALL,
    };
    let params = AttentionParams { window, mask: added.is_some(), ..AttentionParams::new(scale) };
    let given: Vec<Edge> =
        [scores.query, scores.key, scores.value].into_iter().chain(added).collect();
    let result = at.apply(Op::Attention { params }, &given)?;
    join_heads(at, result)
}

/// Three products of one input, and attention. Their weights are one matrix.
fn attention(node: &mut NodeDef<'_, '_>, integers: bool) -> Made {
    let settings = Settings::of(node)?;
    let attributes = &node.attributes;
    let sizes = attributes.ints("qkv_hidden_sizes")?.unwrap_or_default().to_vec();
    let rotated = attributes.flag("do_rotary", false)?;
    attributes.ignore(&["past_present_share_buffer", "rotary_embedding_dim"]);
    if rotated {
        return Err(super::refusal("do_rotary is not supported: its angles are nowhere defined"));
    }
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let (products, mask, past, bias) = match integers {
            true => {
                let zeros = [inputs.optional(6)?, inputs.optional(7)?];
                let side = |index: usize| -> Expanded<Quantized> {
                    let (values, scale) = (inputs.tensor(index)?, inputs.tensor(index + 3)?);
                    Ok(Quantized { values, scale, zero: zeros[index] })
                };
                let (a, b) = (side(0)?, side(1)?);
                let bias = Some(inputs.tensor(2)?);
                (product(at, a, b, bias, None)?, inputs.optional(5)?, inputs.optional(8)?, None)
            }
            false => {
                let weights = inputs.tensor(1)?;
                let products = multiplied(at, input, weights)?;
                let products = plus(at, products, inputs.optional(2)?)?;
                (products, inputs.optional(3)?, inputs.optional(4)?, inputs.optional(5)?)
            }
        };
        let &[_, _, width] = &at.shape(products)[..] else {
            return refuse("the input needs batch, length and width");
        };
        let widths = match sizes[..] {
            [q, k, v] => [size(q)?, size(k)?, size(v)?],
            _ => [width / 3; 3],
        };
        if widths.iter().sum::<usize>() != width {
            return refuse(format!("widths {widths:?} of {width}"));
        }
        let (mut start, mut parts) = (0, Vec::with_capacity(3));
        for width in widths {
            let part = slice(at, products, 2, start, width)?;
            parts.push(split_heads(at, part, settings.heads)?);
            start += width;
        }
        let mut scores = Scores { query: parts[0], key: parts[1], value: parts[2], past: 0 };
        if let Some(past) = past {
            scores.past = at.shape(past).get(3).copied().unwrap_or(0);
            for (index, new) in [(0, &mut scores.key), (1, &mut scores.value)] {
                let old = slice(at, past, 0, index, 1)?;
                let old = squeeze(at, old, 0)?;
                *new = at.concat(2, &[old, *new])?;
            }
        }
        let added = added(at, &scores, settings, mask, bias)?;
        let mut results = vec![Value::Tensor(attended(at, &scores, settings, added)?)];
        if at.wants(1) {
            let (key, value) = (unsqueeze(at, scores.key, 0)?, unsqueeze(at, scores.value, 0)?);
            results.push(Value::Tensor(at.concat(0, &[key, value])?));
        }
        Ok(results)
    })
}

/// One part of `[batch, length, heads, parts, size]`, as `[batch, heads, length, size]`.
fn packed_part(at: &mut Expander<'_>, packed: Edge, part: usize) -> Expanded<Edge> {
    let one = slice(at, packed, 3, part, 1)?;
    let one = squeeze(at, one, 3)?;
    permute(at, one, &[0, 2, 1, 3])
}

fn multi_head(node: &mut NodeDef<'_, '_>) -> Made {
    let settings = Settings::of(node)?;
    operator(node, move |at, inputs| {
        if inputs.value(8).is_some() || inputs.value(9).is_some() || at.wants(3) {
            return refuse(
                "buffers of past lengths, beams and scores as a result are not supported",
            );
        }
        let query = inputs.tensor(0)?;
        let past = [inputs.optional(6)?, inputs.optional(7)?];
        let mut scores = match (at.rank(query), inputs.optional(1)?) {
            (5, _) => {
                let parts = [0, 1, 2].map(|part| packed_part(at, query, part));
                let [query, key, value] = parts;
                Scores { query: query?, key: key?, value: value?, past: 0 }
            }
            (_, Some(key)) if at.rank(key) == 5 => {
                let bias = biases(at, inputs, query, None)?;
                let query = plus(at, query, bias[0])?;
                let query = split_heads(at, query, settings.heads)?;
                let (key, value) = (packed_part(at, key, 0)?, packed_part(at, key, 1)?);
                Scores { query, key, value, past: 0 }
            }
            (_, Some(key)) => {
                let value = inputs.tensor(2)?;
                // Keys and values that have heads are those of another call, as they were.
                let split = at.rank(key) == 4;
                let width = if split { None } else { at.shape(value).last().copied() };
                let bias = biases(at, inputs, query, width)?;
                let query = plus(at, query, bias[0])?;
                let query = split_heads(at, query, settings.heads)?;
                let (mut key, mut value) = (key, value);
                if !split {
                    key = plus(at, key, bias[1])?;
                    key = split_heads(at, key, settings.heads)?;
                    value = plus(at, value, bias[2])?;
                    value = split_heads(at, value, settings.heads)?;
                }
                Scores { query, key, value, past: 0 }
            }
            (_, None) => return refuse("there are no keys"),
        };
        if let [Some(old_key), Some(old_value)] = past {
            scores.past = at.shape(old_key).get(2).copied().unwrap_or(0);
            scores.key = at.concat(2, &[old_key, scores.key])?;
            scores.value = at.concat(2, &[old_value, scores.value])?;
        }
        let (mask, bias) = (inputs.optional(4)?, inputs.optional(5)?);
        let added = added(at, &scores, settings, mask, bias)?;
        let result = attended(at, &scores, settings, added)?;
        Ok([result, scores.key, scores.value].into_iter().map(Value::Tensor).collect())
    })
}

/// The biases of queries, keys and values, which lie behind each other. `values` is the width of values.
fn biases(
    at: &mut Expander<'_>,
    inputs: Inputs<'_>,
    query: Edge,
    values: Option<usize>,
) -> Expanded<[Option<Edge>; 3]> {
    let Some(bias) = inputs.optional(3)? else { return Ok([None; 3]) };
    let width = at.shape(query).last().copied().unwrap_or(0);
    let mut parts = [Some(slice(at, bias, 0, 0, width)?), None, None];
    if let Some(values) = values {
        parts[1] = Some(slice(at, bias, 0, width, width)?);
        parts[2] = Some(slice(at, bias, 0, 2 * width, values)?);
    }
    Ok(parts)
}

/// Truth values of keys that a query sees, where the library's windows do not do: `[batch, 1, queries, keys]`.
pub(super) fn seen_keys(
    at: &mut Expander<'_>,
    [batch, queries, keys]: [usize; 3],
    first: Edge,
    lengths: Edge,
    window: (Option<usize>, bool),
) -> Expanded<Edge> {
    let shape = [batch, 1, queries, keys];
    let places = iota(at, DType::I64, &shape, 3)?;
    let own = iota(at, DType::I64, &shape, 2)?;
    let first = reshape(at, first, &[batch, 1, 1, 1])?;
    let own = pair(at, BinaryOp::Add, own, first)?;
    let lengths = reshape(at, lengths, &[batch, 1, 1, 1])?;
    let lengths = broadcast(at, lengths, &shape)?;
    let mut seen = pair(at, BinaryOp::Less, places, lengths)?;
    let (left, causal) = window;
    if causal {
        let before = pair(at, BinaryOp::LessEqual, places, own)?;
        seen = pair(at, BinaryOp::And, seen, before)?;
    }
    if let Some(left) = left {
        let left = fill(at, left as i64, DType::I64, &[])?;
        let oldest = pair(at, BinaryOp::Sub, own, left)?;
        let young = pair(at, BinaryOp::GreaterEqual, places, oldest)?;
        seen = pair(at, BinaryOp::And, seen, young)?;
    }
    Ok(seen)
}

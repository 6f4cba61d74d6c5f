//! GroupQueryAttention: keys and values with fewer heads, in buffers that grow from call to call.

use millstream_core::{
    Alignment, AttentionParams, BinaryOp, DType, Epilogue, KeyWindow, Op, UnaryOp,
};
use millstream_graph::{Edge, Expanded, Expander, Value};

use super::super::common::{
    Made, broadcast, cast, choose, each, fill, iota, pair, permute, refusal, refuse, reshape, size,
    slice, with_number,
};
use super::attention::{join_heads, seen_keys, split_heads};
use super::rotary::rotated;
use super::scaled;
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[("GroupQueryAttention", group_query)];

#[derive(Clone, Copy, Debug)]
struct Settings {
    heads: usize,
    key_heads: usize,
    scale: Option<f32>,
    softcap: Option<f32>,
    /// Keys that a query sees, its own included.
    window: Option<usize>,
    causal: bool,
    rotary: bool,
    interleaved: bool,
    /// A score of 0 that belongs to no key counts in the softmax.
    smooth: bool,
}

fn settings(node: &NodeDef<'_, '_>) -> crate::Result<Settings> {
    let attributes = &node.attributes;
    let count = |name: &str| -> crate::Result<usize> {
        let given = attributes.int_or(name, 0)?;
        let count = usize::try_from(given).ok().filter(|count| *count > 0);
        count.ok_or_else(|| refusal(format!("{name} is {given}")))
    };
    for name in ["k_quant_type", "v_quant_type"] {
        if attributes.string_or(name, "NONE")? != "NONE" {
            return Err(refusal("keys and values of few bits are not supported"));
        }
    }
    if attributes.int_or("qk_output", 0)? != 0 || attributes.flag("sliding_window_cache", false)? {
        return Err(refusal("scores as a result and buffers that slide are not supported"));
    }
    attributes.ignore(&["kv_cache_bit_width", "qk_norm_epsilon"]);
    let window = attributes.int_or("local_window_size", -1)?;
    Ok(Settings {
        heads: count("num_heads")?,
        key_heads: count("kv_num_heads")?,
        scale: attributes.float("scale")?.filter(|scale| *scale != 0.0),
        softcap: attributes.float("softcap")?.filter(|cap| *cap > 0.0),
        window: usize::try_from(window).ok().filter(|window| *window > 0),
        causal: attributes.flag("causal", true)?,
        rotary: attributes.flag("do_rotary", false)?,
        interleaved: attributes.flag("rotary_interleaved", false)?,
        smooth: attributes.int_or("smooth_softmax", -1)? > 0,
    })
}

/// Queries, keys and values with heads. All three may be in the first input.
fn split(at: &mut Expander<'_>, inputs: Inputs<'_>, settings: Settings) -> Expanded<[Edge; 3]> {
    let query = inputs.tensor(0)?;
    let (heads, key_heads) = (settings.heads, settings.key_heads);
    if let (Some(key), Some(value)) = (inputs.optional(1)?, inputs.optional(2)?) {
        return Ok([
            split_heads(at, query, heads)?,
            split_heads(at, key, key_heads)?,
            split_heads(at, value, key_heads)?,
        ]);
    }
    let all = split_heads(at, query, heads + 2 * key_heads)?;
    Ok([
        slice(at, all, 1, 0, heads)?,
        slice(at, all, 1, heads, key_heads)?,
        slice(at, all, 1, heads + key_heads, key_heads)?,
    ])
}

fn group_query(node: &mut NodeDef<'_, '_>) -> Made {
    let settings = settings(node)?;
    operator(node, move |at, inputs| {
        if (12..16).any(|index| inputs.value(index).is_some()) {
            return refuse("scales and norms of keys and values are not supported");
        }
        // How many keys the buffers hold behind this call.
        let total = at.scalar(inputs.tensor(6)?)?.as_i64();
        let total = size(total)?;
        let [mut query, mut key, value] = split(at, inputs, settings)?;
        let &[batch, _, length, width] = &at.shape(query)[..] else {
            return refuse("queries need heads");
        };
        let lengths = inputs.tensor(5)?;
        let lengths = reshape(at, lengths, &[batch])?;
        let lengths = cast(at, lengths, DType::I64)?;
        let lengths = with_number(at, BinaryOp::Add, lengths, 1i64)?;
        // Where the first new key of each batch stands. In a first call all begin at 0, however long they are.
        let first = match total == length {
            true => fill(at, 0i64, DType::I64, &[batch])?,
            false => with_number(at, BinaryOp::Sub, lengths, length as i64)?,
        };
        if settings.rotary {
            let (Some(cos), Some(sin)) = (inputs.optional(7)?, inputs.optional(8)?) else {
                return refuse("angles are not given");
            };
            let positions = match inputs.optional(9)? {
                Some(positions) => broadcast(at, positions, &[batch, length])?,
                None => {
                    let rest = iota(at, DType::I64, &[batch, length], 1)?;
                    let first = reshape(at, first, &[batch, 1])?;
                    pair(at, BinaryOp::Add, rest, first)?
                }
            };
            let interleaved = settings.interleaved;
            query = rotated(at, query, [cos, sin], positions, interleaved)?;
            // Where another layer's keys are used, there is none to turn.
            if at.shape(key)[2] > 0 {
                key = rotated(at, key, [cos, sin], positions, interleaved)?;
            }
        }
        let key = kept(at, inputs.optional(3)?, key, first, total)?;
        let value = kept(at, inputs.optional(4)?, value, first, total)?;
        let keys = at.shape(key)[2];
        let scale = settings.scale.unwrap_or(1.0 / (width as f32).sqrt());
        let (bias, sinks) = (inputs.optional(10)?, inputs.optional(11)?);
        let result = if settings.smooth || sinks.is_some() {
            let left = settings.window.map(|window| window - 1);
            let sizes = [batch, length, keys];
            let seen = seen_keys(at, sizes, first, lengths, (left, settings.causal))?;
            smooth(at, [query, key, value], (seen, bias, sinks), settings, scale)?
        } else {
            let align = match total == length {
                true => Alignment::Start { offset: 0 },
                false => Alignment::End,
            };
            let window = KeyWindow {
                align,
                left: settings.window.map(|window| (window - 1) as u32),
                right: settings.causal.then_some(0),
            };
            let params = AttentionParams {
                softcap: settings.softcap,
                window,
                mask: bias.is_some(),
                lengths: true,
                ..AttentionParams::new(scale)
            };
            let mut given = vec![query, key, value];
            if let Some(bias) = bias {
                given.push(as_wide(at, bias, keys)?);
            }
            given.push(lengths);
            at.apply(Op::Attention { params }, &given)?
        };
        let result = join_heads(at, result)?;
        Ok([result, key, value].into_iter().map(Value::Tensor).collect())
    })
}

/// What is added to scores, for keys that it has nothing for too: those lie beyond what is seen.
fn as_wide(at: &mut Expander<'_>, bias: Edge, keys: usize) -> Expanded<Edge> {
    let mut shape = at.shape(bias);
    let Some(last) = shape.last_mut() else { return refuse("a bias needs axes") };
    if *last >= keys || *last == 1 {
        return Ok(bias);
    }
    *last = keys - *last;
    let rest = fill(at, 0.0f32, at.dtype(bias), &shape)?;
    at.concat(shape.len() - 1, &[bias, rest])
}

/// A buffer with new rows, each batch from its own place on.
fn kept(
    at: &mut Expander<'_>,
    past: Option<Edge>,
    new: Edge,
    first: Edge,
    total: usize,
) -> Expanded<Edge> {
    let mut shape = at.shape(new);
    let length = shape[2];
    let had = past.map_or(0, |past| at.shape(past).get(2).copied().unwrap_or(0));
    let room = total.max(had);
    if room < length {
        return refuse(format!("{length} new keys for {room} in all"));
    }
    // All are there: those of another layer, which wrote them in this call.
    if length == 0 {
        return match past {
            Some(past) if had >= total => Ok(past),
            _ => refuse(format!("{had} past keys and no new ones, where {total} in all are said")),
        };
    }
    if room == length {
        return Ok(new);
    }
    shape[2] = room - had;
    let buffer = match past {
        Some(past) if room == had => past,
        Some(past) => {
            let rest = fill(at, 0.0f32, at.dtype(new), &shape)?;
            at.concat(2, &[past, rest])?
        }
        None => fill(at, 0.0f32, at.dtype(new), &shape)?,
    };
    at.apply(Op::CacheWrite { axis: 2, circular: false, positions: true }, &[buffer, new, first])
}

/// Attention whose softmax has one more score, of no key.
fn smooth(
    at: &mut Expander<'_>,
    [query, key, value]: [Edge; 3],
    (seen, bias, sinks): (Edge, Option<Edge>, Option<Edge>),
    settings: Settings,
    scale: f32,
) -> Expanded<Edge> {
    let dtype = at.dtype(query);
    let &[batch, heads, length, _] = &at.shape(query)[..] else { return refuse("heads") };
    let group = heads / settings.key_heads.max(1);
    let spread = |at: &mut Expander<'_>, side: Edge| -> Expanded<Edge> {
        let &[batch, own, keys, width] = &at.shape(side)[..] else { return refuse("heads") };
        let one = reshape(at, side, &[batch, own, 1, keys, width])?;
        let wide = broadcast(at, one, &[batch, own, group, keys, width])?;
        reshape(at, wide, &[batch, heads, keys, width])
    };
    let (key, value) = (spread(at, key)?, spread(at, value)?);
    let key = permute(at, key, &[0, 1, 3, 2])?;
    let product = Op::MatMul { epilogue: Epilogue::default() };
    let scores = at.apply(product.clone(), &[query, key])?;
    let mut scores = scaled(at, scores, scale)?;
    if let Some(cap) = settings.softcap {
        let small = scaled(at, scores, 1.0 / cap)?;
        let soft = each(at, UnaryOp::Tanh, small)?;
        scores = scaled(at, soft, cap)?;
    }
    let keys = at.shape(scores)[3];
    if let Some(bias) = bias {
        let bias = as_wide(at, bias, keys)?;
        scores = pair(at, BinaryOp::Add, scores, bias)?;
    }
    let hidden = at.number(f64::NEG_INFINITY, dtype)?;
    let scores = choose(at, seen, scores, hidden)?;
    let sink = match sinks {
        Some(sinks) => {
            let sinks = cast(at, sinks, dtype)?;
            let sinks = reshape(at, sinks, &[1, heads, 1, 1])?;
            broadcast(at, sinks, &[batch, heads, length, 1])?
        }
        None => fill(at, 0.0f32, dtype, &[batch, heads, length, 1])?,
    };
    let all = at.concat(3, &[scores, sink])?;
    let weights = at.apply(Op::Softmax { axis: 3, log: false }, &[all])?;
    let weights = slice(at, weights, 3, 0, keys)?;
    at.apply(product, &[weights, value])
}

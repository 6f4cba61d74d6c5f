//! Attention by a state that every token changes, and convolutions with a state.

use millstream_core::{BinaryOp, ConvParams, Epilogue, Op, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander, Value};

use super::common::{
    Made, broadcast, cast, each, fill, many, pair, permute, refusal, refuse, reshape, size,
    size_of_axis, slice, unknown, unsqueeze, wide, with_number,
};
use super::product::multiplied;
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table =
    &[("CausalConvWithState", causal_conv), ("LinearAttention", linear_attention)];

/// The attributes.
#[derive(Clone, Copy, Debug)]
struct Rule {
    gated: bool,
    delta: bool,
    query_heads: i64,
    key_heads: i64,
    scale: f32,
}

fn linear_attention(node: &mut NodeDef<'_, '_>) -> Made {
    let (gated, delta) = match node.attributes.string_or("update_rule", "gated_delta")? {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return unknown("update_rule", other),
    };
    let rule = Rule {
        gated,
        delta,
        query_heads: node.attributes.int_or("q_num_heads", 0)?,
        key_heads: node.attributes.int_or("kv_num_heads", 0)?,
        scale: node.attributes.float_or("scale", 0.0)?,
    };
    node.attributes.ignore(&["chunk_size"]);
    only(node, "state_window", 0)?;
    operator(node, move |at, inputs| rule.expand(at, inputs))
}

/// Refuses an attribute of onnxruntime's that asks for another form of the operator.
fn only(node: &NodeDef<'_, '_>, attribute: &str, value: i64) -> crate::Result<()> {
    match node.attributes.int_or(attribute, value)? {
        given if given == value => Ok(()),
        given => Err(refusal(format!("{attribute} is {given}; only {value} is supported"))),
    }
}

/// `[batch, length, heads · size]` as `[batch, heads, length, size]`, in a type to compute with.
fn apart(at: &mut Expander<'_>, input: Edge, heads: usize) -> Expanded<Edge> {
    let [batch, length, all] = at.shape(input)[..] else { return refuse("three axes are needed") };
    let dtype = wide(at.dtype(input));
    let input = cast(at, input, dtype)?;
    let input = reshape(at, input, &[batch, length, heads, all / heads])?;
    permute(at, input, &[0, 2, 1, 3])
}

impl Rule {
    fn expand(&self, at: &mut Expander<'_>, inputs: Inputs<'_>) -> Expanded<Vec<Value>> {
        let (query_heads, key_heads) = (size(self.query_heads)?, size(self.key_heads)?);
        let fit = query_heads % key_heads.max(1) == 0 || key_heads % query_heads.max(1) == 0;
        if key_heads == 0 || query_heads == 0 || !fit {
            return refuse(format!("{query_heads} heads of queries for {key_heads} of keys"));
        }
        let dtype = at.dtype(inputs.tensor(0)?);
        let mut query = apart(at, inputs.tensor(0)?, query_heads)?;
        let key = apart(at, inputs.tensor(1)?, key_heads)?;
        let value = apart(at, inputs.tensor(2)?, key_heads)?;
        let computed = at.dtype(query);
        let [batch, _, length, key_size] = at.shape(query)[..] else { return refuse("queries") };
        let value_size = at.shape(value)[3];
        if query_heads < key_heads {
            // A head of queries is asked of several states.
            let one = unsqueeze(at, query, 2)?;
            let wide = [batch, query_heads, key_heads / query_heads, length, key_size];
            query = broadcast(at, one, &wide)?;
        }
        let query_heads = query_heads.max(key_heads);
        let groups = query_heads / key_heads;
        // Heads that share a state are rows of one matrix.
        let query = reshape(at, query, &[batch, key_heads, groups, length, key_size])?;
        let decay = match inputs.optional(4)? {
            Some(decay) if self.gated => Some(apart(at, decay, key_heads)?),
            _ => None,
        };
        let rate = match inputs.optional(5)? {
            Some(rate) if self.delta => {
                let heads = size_of_axis(at, rate, 2)?.max(1);
                Some(apart(at, rate, heads)?)
            }
            _ => None,
        };
        let past = inputs.optional(3)?;
        let state_type = past.map_or(dtype, |past| at.dtype(past));
        let mut state = match past {
            Some(past) => cast(at, past, computed)?,
            None => fill(at, 0.0, computed, &[batch, key_heads, key_size, value_size])?,
        };
        let scale = if self.scale == 0.0 { 1.0 / (key_size as f32).sqrt() } else { self.scale };
        let mut results = Vec::with_capacity(length);
        for token in 0..length {
            let row = |at: &mut Expander<'_>, edge: Edge| slice(at, edge, 2, token, 1);
            let column = |at: &mut Expander<'_>, edge: Edge| -> Expanded<Edge> {
                let row = slice(at, edge, 2, token, 1)?;
                permute(at, row, &[0, 1, 3, 2])
            };
            if let Some(decay) = decay {
                let decay = column(at, decay)?;
                let factor = each(at, UnaryOp::Exp, decay)?;
                state = pair(at, BinaryOp::Mul, state, factor)?;
            }
            let mut new = row(at, value)?;
            if let Some(rate) = rate {
                let key = row(at, key)?;
                let found = multiplied(at, key, state)?;
                let missing = pair(at, BinaryOp::Sub, new, found)?;
                let rate = row(at, rate)?;
                new = pair(at, BinaryOp::Mul, missing, rate)?;
            }
            let key = column(at, key)?;
            let written = pair(at, BinaryOp::Mul, key, new)?;
            state = pair(at, BinaryOp::Add, state, written)?;
            let asked = slice(at, query, 3, token, 1)?;
            let asked = reshape(at, asked, &[batch, key_heads, groups, key_size])?;
            let result = multiplied(at, asked, state)?;
            results.push(reshape(at, result, &[batch, 1, query_heads * value_size])?);
        }
        let result = if results.is_empty() {
            fill(at, 0.0, computed, &[batch, 0, query_heads * value_size])?
        } else {
            at.concat(1, &results)?
        };
        let result = with_number(at, BinaryOp::Mul, result, scale)?;
        let result = cast(at, result, dtype)?;
        many([result, cast(at, state, state_type)?])
    }
}

/// A convolution of each channel with what came before.
fn causal_conv(node: &mut NodeDef<'_, '_>) -> Made {
    let silu = match node.attributes.string_or("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        other => return unknown("activation", other),
    };
    for (attribute, value) in
        [("ndim", 1), ("dilation", 1), ("channels_last", 0), ("state_window", 0)]
    {
        only(node, attribute, value)?;
    }
    operator(node, move |at, inputs| {
        let (input, weight, bias) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional(2)?);
        let ([batch, channels, _], [_, _, taps]) = (&at.shape(input)[..], &at.shape(weight)[..])
        else {
            return refuse("batch, channels and length are needed");
        };
        let (batch, channels, before) = (*batch, *channels, taps.saturating_sub(1));
        let past = match inputs.optional(3)? {
            Some(past) => past,
            None => {
                let dtype = at.dtype(input);
                fill(at, 0.0, dtype, &[batch, channels, before])?
            }
        };
        let whole = at.concat(2, &[past, input])?;
        let groups = u32::try_from(channels).unwrap_or(u32::MAX);
        let params = Box::new(ConvParams { groups, ..ConvParams::new(1) });
        let epilogue = Epilogue { bias: bias.is_some(), ..Epilogue::default() };
        let given: Vec<Edge> = [whole, weight].into_iter().chain(bias).collect();
        let mut result = at.apply(Op::Conv { params, epilogue }, &given)?;
        if silu {
            result = each(at, UnaryOp::Silu, result)?;
        }
        let length = at.shape(whole)[2];
        let present = slice(at, whole, 2, length - before, before)?;
        many([result, present])
    })
}

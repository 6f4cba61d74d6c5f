//! Attention.

use millstream_core::{
    Alignment, AttentionParams, BinaryOp, DType, KeyWindow, Op, PadMode, Scalar,
};
use millstream_graph::{Edge, Expanded, Expander, Value};

use super::attention_scores::{Scores, scores};
use super::common::{Made, cast, one, pair, permute, refusal, refuse, reshape, size};
use super::pad::padded;
use super::unary::swish_of;
use crate::Result;
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table =
    &[("Attention", attention), ("RotaryEmbedding", rotary_embedding), ("SwiGLU", swiglu)];

/// The attributes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes {
    causal: bool,
    query_heads: Option<i64>,
    key_heads: Option<i64>,
    scale: Option<f32>,
    softcap: Option<f32>,
    left: Option<u32>,
    right: Option<u32>,
    output_mode: i64,
}

/// A bound of a window, of which -1 is none.
fn bound(node: &NodeDef<'_, '_>, name: &str) -> Result<Option<u32>> {
    match node.attributes.int_or(name, -1)? {
        -1 => Ok(None),
        given => match u32::try_from(given) {
            Ok(given) => Ok(Some(given)),
            Err(_) => Err(refusal(format!("{name} is {given}"))),
        },
    }
}

impl Attributes {
    fn of(node: &NodeDef<'_, '_>) -> Result<Self> {
        let attributes = &node.attributes;
        attributes.ignore(&["softmax_precision"]);
        Ok(Self {
            causal: attributes.flag("is_causal", false)?,
            query_heads: attributes.int("q_num_heads")?,
            key_heads: attributes.int("kv_num_heads")?,
            scale: attributes.float("scale")?,
            softcap: attributes.float("softcap")?.filter(|&softcap| softcap != 0.0),
            left: bound(node, "left_window_size")?,
            right: bound(node, "right_window_size")?,
            output_mode: attributes.int_or("qk_matmul_output_mode", 0)?,
        })
    }
}

/// `[batch, heads, length, size]` of a tensor that may have heads and sizes in one axis.
pub(super) fn with_heads(at: &mut Expander<'_>, input: Edge, heads: Option<i64>) -> Expanded<Edge> {
    match at.shape(input)[..] {
        [_, _, _, _] => Ok(input),
        [batch, length, all] => {
            let Some(heads) = heads else { return refuse("the number of heads is not given") };
            let heads = size(heads)?.max(1);
            let apart = reshape(at, input, &[batch, length, heads, all / heads])?;
            permute(at, apart, &[0, 2, 1, 3])
        }
        ref other => refuse(format!("an input of shape {other:?}")),
    }
}

/// Back to `[batch, length, heads · size]`.
pub(super) fn without_heads(at: &mut Expander<'_>, input: Edge) -> Expanded<Edge> {
    let moved = permute(at, input, &[0, 2, 1, 3])?;
    let [batch, length, heads, size] = at.shape(moved)[..] else { return Ok(moved) };
    reshape(at, moved, &[batch, length, heads * size])
}

/// Keys or values behind those of the past.
fn joined(at: &mut Expander<'_>, past: Option<Edge>, new: Edge) -> Expanded<Edge> {
    match past {
        Some(past) => at.concat(2, &[past, new]),
        None => Ok(new),
    }
}

/// The mask with as many keys as there are; those that it leaves out are not seen.
fn whole_mask(at: &mut Expander<'_>, mask: Edge, keys: usize, dtype: DType) -> Expanded<Edge> {
    let truths = at.dtype(mask) == DType::Bool;
    let mask = if truths { mask } else { cast(at, mask, dtype)? };
    let shape = at.shape(mask);
    match shape.last() {
        Some(&have) if have < keys && have != 1 => {
            let hidden =
                if truths { Scalar::Bool(false) } else { Scalar::Float(f64::NEG_INFINITY) };
            let (before, mut after) = (vec![0; shape.len()], vec![0; shape.len()]);
            after[shape.len() - 1] = (keys - have) as i64;
            padded(at, mask, PadMode::Constant(hidden), &before, &after)
        }
        _ => Ok(mask),
    }
}

fn attention(node: &mut NodeDef<'_, '_>) -> Made {
    let attributes = Attributes::of(node)?;
    operator(node, move |at, inputs| expand(at, inputs, &attributes))
}

fn expand(
    at: &mut Expander<'_>,
    inputs: Inputs<'_>,
    attributes: &Attributes,
) -> Expanded<Vec<Value>> {
    let (query, key, value) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
    let packed = at.rank(query) == 3;
    let dtype = at.dtype(query);
    let query = with_heads(at, query, attributes.query_heads)?;
    let key = with_heads(at, key, attributes.key_heads)?;
    let value = with_heads(at, value, attributes.key_heads)?;
    let (past_key, past_value) = (inputs.optional(4)?, inputs.optional(5)?);
    let key = joined(at, past_key, key)?;
    let value = joined(at, past_value, value)?;
    let lengths = inputs.optional(6)?;
    let past = past_key.map_or(0, |past| at.shape(past)[2]);
    let (&[_, _, _, head_size], &[_, _, keys, _]) = (&at.shape(query)[..], &at.shape(key)[..])
    else {
        return refuse("queries and keys have no heads");
    };
    let mask = match inputs.optional(3)? {
        Some(mask) => Some(whole_mask(at, mask, keys, dtype)?),
        None => None,
    };
    let right = if attributes.causal { Some(0) } else { attributes.right };
    let align = match lengths {
        Some(_) if past_key.is_none() => Alignment::End,
        _ => Alignment::Start { offset: past as i64 },
    };
    let params = AttentionParams {
        scale: attributes.scale.unwrap_or(1.0 / (head_size as f32).sqrt()),
        softcap: attributes.softcap,
        window: KeyWindow { align, left: attributes.left, right },
        mask: mask.is_some(),
        lengths: lengths.is_some(),
    };
    let same = cast(at, value, dtype)?;
    let given: Vec<Edge> = [query, key, same].into_iter().chain(mask).chain(lengths).collect();
    let mut result = at.apply(Op::Attention { params }, &given)?;
    if packed {
        result = without_heads(at, result)?;
    }
    let mut made = vec![Value::Tensor(result), Value::Tensor(key), Value::Tensor(value)];
    if at.wants(3) {
        let mode = Scores { params, mode: attributes.output_mode };
        made.push(Value::Tensor(scores(at, [query, key], mask, lengths, mode)?));
    }
    Ok(made)
}

fn rotary_embedding(node: &mut NodeDef<'_, '_>) -> Made {
    let interleaved = node.attributes.flag("interleaved", false)?;
    let heads = node.attributes.int("num_heads")?;
    let rotated = node.attributes.int_or("rotary_embedding_dim", 0)?;
    operator(node, move |at, inputs| {
        let (input, cos, sin) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let positions = inputs.optional(3)?;
        let packed = at.rank(input) == 3;
        let parts = with_heads(at, input, heads)?;
        let pairs = at.shape(cos).last().copied().unwrap_or(0);
        let wanted = match size(rotated)? {
            0 => at.shape(parts)[3] / 2,
            rotated => rotated / 2,
        };
        if pairs != wanted {
            return refuse(format!("{pairs} pairs are rotated, expected {wanted}"));
        }
        let op = Op::Rope { interleaved, positions: positions.is_some() };
        let given: Vec<Edge> = [parts, cos, sin].into_iter().chain(positions).collect();
        let result = at.apply(op, &given)?;
        one(if packed { without_heads(at, result)? } else { result })
    })
}

fn swiglu(node: &mut NodeDef<'_, '_>) -> Made {
    let alpha = node.attributes.float_or("alpha", 1.0)?;
    operator(node, move |at, inputs| {
        let (gate, linear) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let gate = swish_of(at, gate, alpha)?;
        one(pair(at, BinaryOp::Mul, gate, linear)?)
    })
}

//! What attention computes on its way, for models that want to see it.

use millstream_core::{Alignment, AttentionParams, BinaryOp, DType, Op, ReduceOp, Scalar, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{
    cast, choose, each, fill, iota, pair, permute, reduce, refuse, reshape, size_of_axis, wide,
    with_number,
};
use super::product::multiplied;

/// Which of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores {
    pub params: AttentionParams,
    /// 0: products. 1: limited softly. 2: with what masks add. 3: as probabilities.
    pub mode: i64,
}

/// Products of all queries with all keys, `[batch, heads, queries, keys]`, times the scale.
pub(super) fn products(
    at: &mut Expander<'_>,
    query: Edge,
    key: Edge,
    scale: f32,
) -> Expanded<Edge> {
    let ([batch, heads, queries, size], [_, key_heads, keys, _]) =
        (&at.shape(query)[..], &at.shape(key)[..])
    else {
        return refuse("queries and keys have no heads");
    };
    let [batch, heads, queries, size, key_heads, keys] =
        [*batch, *heads, *queries, *size, (*key_heads).max(1), *keys];
    let groups = heads / key_heads;
    let query = reshape(at, query, &[batch, key_heads, groups * queries, size])?;
    let query = with_number(at, BinaryOp::Mul, query, scale)?;
    let key = permute(at, key, &[0, 1, 3, 2])?;
    let scores = multiplied(at, query, key)?;
    reshape(at, scores, &[batch, heads, queries, keys])
}

/// What attention computes on its way to its result.
pub(super) fn scores(
    at: &mut Expander<'_>,
    [query, key]: [Edge; 2],
    mask: Option<Edge>,
    lengths: Option<Edge>,
    Scores { params, mode }: Scores,
) -> Expanded<Edge> {
    let dtype = at.dtype(query);
    let computed = wide(dtype);
    let (query, key) = (cast(at, query, computed)?, cast(at, key, computed)?);
    let mut scores = products(at, query, key, params.scale)?;
    if let (1.., Some(softcap)) = (mode, params.softcap) {
        scores = with_number(at, BinaryOp::Div, scores, softcap)?;
        scores = each(at, UnaryOp::Tanh, scores)?;
        scores = with_number(at, BinaryOp::Mul, scores, softcap)?;
    }
    if mode >= 2 {
        scores = masked(at, scores, mask, lengths, &params)?;
    }
    if mode >= 3 {
        scores = probabilities(at, scores)?;
    }
    cast(at, scores, dtype)
}

/// Softmax along the last axis, 0 where no key is seen.
fn probabilities(at: &mut Expander<'_>, scores: Edge) -> Expanded<Edge> {
    let (last, dtype) = (at.rank(scores) - 1, at.dtype(scores));
    let softmax = at.apply(Op::Softmax { axis: last as u8, log: false }, &[scores])?;
    let highest = reduce(at, ReduceOp::Max, scores, &[last])?;
    let nothing = with_number(at, BinaryOp::Equal, highest, f64::NEG_INFINITY)?;
    let zero = fill(at, 0.0, dtype, &[])?;
    choose(at, nothing, zero, softmax)
}

/// Scores with what the mask adds, -∞ where a key is not seen.
fn masked(
    at: &mut Expander<'_>,
    scores: Edge,
    mask: Option<Edge>,
    lengths: Option<Edge>,
    params: &AttentionParams,
) -> Expanded<Edge> {
    let dtype = at.dtype(scores);
    let hidden = fill(at, Scalar::Float(f64::NEG_INFINITY), dtype, &[])?;
    let mut scores = scores;
    if let Some(mask) = mask {
        scores = if at.dtype(mask) == DType::Bool {
            choose(at, mask, scores, hidden)?
        } else {
            let mask = cast(at, mask, dtype)?;
            pair(at, BinaryOp::Add, scores, mask)?
        };
    }
    let [_, _, queries, keys] = at.shape(scores)[..] else { return Ok(scores) };
    let key = iota(at, DType::I64, &[1, 1, 1, keys], 3)?;
    let lengths = match lengths {
        Some(lengths) => {
            let lengths = cast(at, lengths, DType::I64)?;
            let batch = size_of_axis(at, lengths, 0)?;
            Some(reshape(at, lengths, &[batch, 1, 1, 1])?)
        }
        None => None,
    };
    if let Some(lengths) = lengths {
        let seen = pair(at, BinaryOp::Less, key, lengths)?;
        scores = choose(at, seen, scores, hidden)?;
    }
    // Where queries stand among the keys.
    let query = iota(at, DType::I64, &[1, 1, queries, 1], 2)?;
    let place = match (params.window.align, lengths) {
        (Alignment::Start { offset }, _) => with_number(at, BinaryOp::Add, query, offset)?,
        (Alignment::End, Some(lengths)) => {
            let sum = pair(at, BinaryOp::Add, query, lengths)?;
            with_number(at, BinaryOp::Sub, sum, queries as i64)?
        }
        (Alignment::End, None) => {
            with_number(at, BinaryOp::Add, query, keys as i64 - queries as i64)?
        }
    };
    if let Some(right) = params.window.right {
        let end = with_number(at, BinaryOp::Add, place, i64::from(right))?;
        let seen = pair(at, BinaryOp::LessEqual, key, end)?;
        scores = choose(at, seen, scores, hidden)?;
    }
    if let Some(left) = params.window.left {
        let start = with_number(at, BinaryOp::Sub, place, i64::from(left))?;
        let seen = pair(at, BinaryOp::GreaterEqual, key, start)?;
        scores = choose(at, seen, scores, hidden)?;
    }
    Ok(scores)
}

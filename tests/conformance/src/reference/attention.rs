//! Attention.

use millstream_core::{Alignment, AttentionParams};

use super::near;
use crate::accuracy::{elementary, smallest, sum, unit};
use crate::{Dense, Expected, Value};

/// Whether a query sees a key of a batch with so many.
fn sees(params: &AttentionParams, [query, queries, key, keys]: [usize; 4]) -> bool {
    let [query, queries, key, keys] = [query, queries, key, keys].map(|number| number as i128);
    let own = match params.window.align {
        Alignment::Start { offset } => query + i128::from(offset),
        Alignment::End => query + keys - queries,
    };
    key < keys
        && params.window.left.is_none_or(|left| key >= own - i128::from(left))
        && params.window.right.is_none_or(|right| key <= own + i128::from(right))
}

/// `inputs` are query, key, value and perhaps a mask and lengths.
pub(super) fn apply(params: &AttentionParams, inputs: &[Dense]) -> Vec<Expected> {
    let scale = f64::from(params.scale);
    let [query, key, value] = [&inputs[0], &inputs[1], &inputs[2]];
    let (heads, queries, size) = (query.shape[1], query.shape[2], query.shape[3]);
    let (key_heads, keys, value_size) = (key.shape[1], key.shape[2], value.shape[3]);
    let mut rest = inputs[3..].iter();
    let mask = params.mask.then(|| rest.next().expect("a mask"));
    let mask = mask.map(|mask| mask.broadcast(&[query.shape[0], heads, queries, keys]));
    let lengths = params.lengths.then(|| rest.next().expect("lengths"));
    let dtype = query.dtype;
    let mut expected = Vec::new();
    for row in 0..query.shape[0] * heads * queries {
        let (head, at) = (row / queries, row % queries);
        let (batch, head) = (head / heads, head % heads);
        let key_head = batch * key_heads + head / (heads / key_heads.max(1)).max(1);
        let mut scores = Vec::new();
        let mut error: f64 = 0.0;
        let given = lengths.map(|lengths| lengths.values[batch].as_i64().clamp(0, keys as i64));
        let length = given.map_or(keys, |length| length as usize);
        for index in 0..length {
            let (mut dot, mut magnitude) = (0.0, 0.0);
            for i in 0..size {
                let term = query.values[row * size + i].as_f64()
                    * key.values[(key_head * keys + index) * size + i].as_f64();
                dot += term;
                magnitude += term.abs();
            }
            let mut score = scale * dot;
            let mut around = score.abs();
            if let Some(limit) = params.softcap.map(f64::from) {
                score = limit * (score / limit).tanh();
                around += elementary(dtype, limit) / unit(dtype);
            }
            match mask.as_ref().map(|mask| mask.values[row * keys + index]) {
                Some(Value::Int(0)) => score = f64::NEG_INFINITY,
                Some(Value::Float(added)) => {
                    score += added;
                    around += if added.is_finite() { added.abs() } else { 0.0 };
                }
                _ => {}
            }
            if !sees(params, [at, queries, index, length]) {
                score = f64::NEG_INFINITY;
            }
            error =
                error.max(sum(dtype, size, scale.abs() * magnitude) + 8.0 * unit(dtype) * around);
            scores.push(score);
        }
        let top = scores.iter().fold(f64::NEG_INFINITY, |top, &score| top.max(score));
        let powers: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
        let total: f64 = powers.iter().sum();
        for i in 0..value_size {
            if top == f64::NEG_INFINITY {
                expected.push(near(0.0, 0.0));
                continue;
            }
            let (mut result, mut magnitude) = (0.0, 0.0);
            for (index, power) in powers.iter().enumerate() {
                let value = value.values[(key_head * keys + index) * value_size + i].as_f64();
                result += power / total * value;
                magnitude += power / total * value.abs();
            }
            let relative = 2.0 * error + 2.0 * elementary(dtype, 1.0);
            let bound = relative * magnitude + sum(dtype, keys, 2.0 * magnitude);
            expected.push(near(result, bound + smallest(dtype)));
        }
    }
    expected
}

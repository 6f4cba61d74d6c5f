//! From the inputs of attention to queries, keys and values, in as few products as the inputs allow.

use millstream_core::BufferLike;

use super::attention::MultiheadAttentionOptions;
use super::{Linear, Module};
use crate::error::invalid;
use crate::{Init, Result, Tensor, Weights};

/// Which attention a layer computes. Decides how its weights are packed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum AttentionKind {
    /// Self-attention: query, key and value are one tensor.
    SelfAttention,
    /// Cross-attention: they are not.
    CrossAttention,
    /// Both.
    Any,
}

/// One of the projections in a product: they are `embed_dim` wide and lie side by side on the last axis.
pub(super) struct Projected {
    pub product: Tensor,
    pub index: usize,
}

pub(super) struct Projection {
    /// To query, key and value at once.
    joined: Option<Linear>,
    split: Option<Split>,
}

struct Split {
    query: Linear,
    /// To the key, and to the value beside it unless that has weights of its own.
    key: Linear,
    value: Option<Linear>,
}

impl Projection {
    pub fn new(
        kind: AttentionKind,
        embed_dim: usize,
        options: &MultiheadAttentionOptions,
        weights: &Weights,
    ) -> Result<Self> {
        let Some(rows) = embed_dim.checked_mul(3) else {
            return invalid("attention", format!("embed_dim {embed_dim}"));
        };
        let bias = options.bias.then(|| weights.fetch("in_proj_bias", &[rows], Init::Zeros));
        let bias = bias.transpose()?;
        let part = |tensor: &Tensor, start: usize, count: usize| {
            tensor.narrow(0, start * embed_dim, count * embed_dim)
        };
        let bias = |start, count| bias.as_ref().map(|bias| part(bias, start, count)).transpose();
        let (kdim, vdim) = (options.kdim.unwrap_or(embed_dim), options.vdim.unwrap_or(embed_dim));
        if (kdim, vdim) != (embed_dim, embed_dim) {
            let linear = |index: usize, parameter: &str, inputs: usize| {
                let weight =
                    weights.fetch(parameter, &[embed_dim, inputs], Init::fan_in(inputs))?;
                Linear::from_tensors(&weight, bias(index, 1)?, weights)
            };
            let split = Split {
                query: linear(0, "q_proj_weight", embed_dim)?,
                key: linear(1, "k_proj_weight", kdim)?,
                value: Some(linear(2, "v_proj_weight", vdim)?),
            };
            return Ok(Self { joined: None, split: Some(split) });
        }
        let weight =
            weights.fetch("in_proj_weight", &[rows, embed_dim], Init::fan_in(embed_dim))?;
        let linear = |start, count| {
            Linear::from_tensors(&part(&weight, start, count)?, bias(start, count)?, weights)
        };
        let split = || -> Result<Split> {
            Ok(Split { query: linear(0, 1)?, key: linear(1, 2)?, value: None })
        };
        Ok(Self {
            joined: (kind != AttentionKind::CrossAttention).then(|| linear(0, 3)).transpose()?,
            split: (kind != AttentionKind::SelfAttention).then(split).transpose()?,
        })
    }

    /// Query, key and value.
    pub fn apply(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<[Projected; 3]> {
        let part = |product: &Tensor, index| Projected { product: product.clone(), index };
        let one = same(query, key) && same(key, value);
        match (&self.joined, &self.split) {
            (Some(joined), _) if one => {
                let all = joined.forward(query)?;
                Ok([0, 1, 2].map(|index| part(&all, index)))
            }
            (_, Some(split)) => {
                let query = part(&split.query.forward(query)?, 0);
                let beside = split.key.forward(key)?;
                let value = match &split.value {
                    Some(own) => part(&own.forward(value)?, 0),
                    None if same(key, value) => part(&beside, 1),
                    None => part(&split.key.forward(value)?, 1),
                };
                Ok([query, part(&beside, 0), value])
            }
            _ => invalid("attention", "query, key and value must be one tensor".into()),
        }
    }
}

/// Whether two tensors are the same view of the same memory.
fn same(one: &Tensor, other: &Tensor) -> bool {
    one.buffer().identity() == other.buffer().identity() && one.layout() == other.layout()
}

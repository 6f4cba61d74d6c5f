//! From the inputs of attention to queries, keys and values, in as few products as the inputs allow.

use millstream_core::BufferLike;

use super::attention::MultiheadAttentionOptions;
use super::{Linear, Module};
use crate::error::invalid;
use crate::{Init, Result, Tensor, Weights};

/// What attention will be used for, which decides how its weights are packed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AttentionKind {
    /// Query, key and value are one tensor.
    SelfAttention,
    /// The query is one tensor, key and value are another.
    CrossAttention,
    /// Either.
    Any,
}

/// A part of a product: on the last axis, parts of size `embed_dim` lie side by side.
pub(super) struct Projected {
    pub product: Tensor,
    pub index: usize,
}

pub(super) struct Projection {
    /// Computes query, key and value at once.
    joined: Option<Linear>,
    split: Option<Split>,
}

struct Split {
    query: Linear,
    /// Computes the key, and the value beside it unless `value` does.
    key: Linear,
    value: Option<Linear>,
}

impl Projection {
    /// From one weight with the rows of query, key and value, as in PyTorch's layers.
    pub fn new(
        kind: AttentionKind,
        embed_dim: usize,
        options: &MultiheadAttentionOptions,
        weights: &Weights,
    ) -> Result<Self> {
        let Some(rows) = embed_dim.checked_mul(3) else {
            return invalid("attention", format!("embed_dim {embed_dim}"));
        };
        let (kdim, vdim) = (options.kdim.unwrap_or(embed_dim), options.vdim.unwrap_or(embed_dim));
        let apart = (kdim, vdim) != (embed_dim, embed_dim);
        let first = if apart { "q_proj_weight" } else { "in_proj_weight" };
        let bias = || weights.parameter_like(first, "in_proj_bias", &[rows], Init::Zeros);
        let bias = options.bias.then(bias).transpose()?;
        let part = |tensor: &Tensor, start: usize, count: usize| {
            tensor.narrow(0, start * embed_dim, count * embed_dim)
        };
        let bias = |start, count| bias.as_ref().map(|bias| part(bias, start, count)).transpose();
        if apart {
            let linear = |index: usize, parameter: &str, inputs: usize| {
                let shape = [embed_dim, inputs];
                let weight =
                    weights.parameter_like(first, parameter, &shape, Init::fan_in(inputs))?;
                Linear::from_tensors(&weight, bias(index, 1)?, weights)
            };
            let split = Split {
                query: linear(0, "q_proj_weight", embed_dim)?,
                key: linear(1, "k_proj_weight", kdim)?,
                value: Some(linear(2, "v_proj_weight", vdim)?),
            };
            return Ok(Self { joined: None, split: Some(split) });
        }
        let weight = weights.parameter(first, &[rows, embed_dim], Init::fan_in(embed_dim))?;
        let linear = |start, count| {
            Linear::from_tensors(&part(&weight, start, count)?, bias(start, count)?, weights)
        };
        Self::of(kind, || linear(0, 3), || linear(0, 1), || linear(1, 2))
    }

    /// From linear layers of these names, as in Transformers' models.
    pub fn named(
        kind: AttentionKind,
        embed_dim: usize,
        names: [&str; 3],
        weights: &Weights,
    ) -> Result<Self> {
        let joined = |names: &[&str]| joined(embed_dim, names, weights);
        let query = || Linear::new(embed_dim, embed_dim, true, &weights.child(names[0]));
        Self::of(kind, || joined(&names), query, || joined(&names[1..]))
    }

    /// Makes the layers that the kind of attention needs: `all` for query, key and value, `query` for the query, `rest`
    /// for key and value.
    fn of(
        kind: AttentionKind,
        all: impl FnOnce() -> Result<Linear>,
        query: impl FnOnce() -> Result<Linear>,
        rest: impl FnOnce() -> Result<Linear>,
    ) -> Result<Self> {
        let split = || Ok(Split { query: query()?, key: rest()?, value: None });
        Ok(Self {
            joined: (kind != AttentionKind::CrossAttention).then(all).transpose()?,
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

    /// Query, key and value of one input, side by side.
    pub fn all(&self, input: &Tensor) -> Result<Tensor> {
        match &self.joined {
            Some(joined) => joined.forward(input),
            None => invalid("attention", "it is not self-attention".into()),
        }
    }

    /// The query alone.
    pub fn query(&self, input: &Tensor) -> Result<Tensor> {
        self.split()?.query.forward(input)
    }

    /// Key and value of one input, side by side.
    pub fn key_and_value(&self, input: &Tensor) -> Result<Tensor> {
        self.split()?.key.forward(input)
    }

    fn split(&self) -> Result<&Split> {
        match &self.split {
            Some(split) => Ok(split),
            None => invalid("attention", "it is not cross-attention".into()),
        }
    }
}

/// Several linear layers of one input as one, with their outputs side by side.
fn joined(size: usize, names: &[&str], weights: &Weights) -> Result<Linear> {
    let fetch = |name: &&str| {
        let weights = weights.child(name);
        let weight = weights.parameter("weight", &[size, size], Init::fan_in(size))?;
        Ok((weight, weights.parameter_like("weight", "bias", &[size], Init::Zeros)?))
    };
    let (matrices, biases): (Vec<_>, Vec<_>) =
        names.iter().map(fetch).collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let outputs = size.saturating_mul(names.len());
    let matrix = weights.derived(&[outputs, size], || Tensor::cat(&matrices, 0))?;
    let bias = weights.derived(&[outputs], || Tensor::cat(&biases, 0))?;
    Linear::from_tensors(&matrix, Some(bias), weights)
}

/// Whether two tensors are the same view of the same memory.
pub(super) fn same(one: &Tensor, other: &Tensor) -> bool {
    one.buffer().identity() == other.buffer().identity() && one.layout() == other.layout()
}

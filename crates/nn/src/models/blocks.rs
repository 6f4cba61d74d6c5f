//! What transformers of all types are made of.

use millstream_core::Activation;

use crate::{Init, Linear, Result, Tensor, Weights};

/// Linear layers of one input, side by side: one product gives what all of them give.
pub fn joined(size: usize, names: &[&str], weights: &Weights) -> Result<Linear> {
    let fetch = |name: &&str| {
        let weights = weights.child(name);
        let weight = weights.fetch("weight", &[size, size], Init::fan_in(size))?;
        Ok((weight, weights.fetch("bias", &[size], Init::Zeros)?))
    };
    let (matrices, biases): (Vec<_>, Vec<_>) =
        names.iter().map(fetch).collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let outputs = size.saturating_mul(names.len());
    let matrix = weights.derived(&[outputs, size], || Tensor::cat(&matrices, 0))?;
    let bias = weights.derived(&[outputs], || Tensor::cat(&biases, 0))?;
    Linear::from_tensors(&matrix, Some(bias), weights)
}

/// A part of a product of [`joined`] layers, `[batch, length, parts · size]`, as
/// `[batch, heads, length, size / heads]`.
pub fn heads(product: &Tensor, part: usize, size: usize, heads: usize) -> Result<Tensor> {
    let part = product.narrow(2, part * size, size)?;
    part.unflatten(2, &[heads, size.checked_div(heads).unwrap_or(0)])?.transpose(1, 2)
}

/// Attention whose heads are joined again: `[batch, length, size]`. The mask is true where a key is seen.
pub fn attend(
    [query, key, value]: [&Tensor; 3],
    seen: Option<&Tensor>,
    causal: bool,
) -> Result<Tensor> {
    query.attention(key, value, seen, None, causal)?.transpose(1, 2)?.flatten(2, 3)
}

/// The two linear layers between attentions.
pub struct FeedForward {
    inner: Linear,
    outer: Linear,
    activation: Activation,
}

impl FeedForward {
    pub fn new(inner: Linear, outer: Linear, activation: Activation) -> Self {
        Self { inner, outer, activation }
    }

    pub fn forward(&self, input: &Tensor, residual: &Tensor) -> Result<Tensor> {
        let inner = self.inner.forward_fused(input, None, self.activation)?;
        self.outer.forward_fused(&inner, Some(residual), Activation::None)
    }
}

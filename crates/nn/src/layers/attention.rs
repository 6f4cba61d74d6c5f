//! Attention with several heads.

use millstream_core::{Activation, BufferLike, Command};

use super::linear::Linear;
use super::{AttentionMask, Module};
use crate::error::invalid;
use crate::tensor::Recorder;
use crate::{Init, Result, Tensor, Weights};

/// The options of a [`MultiheadAttention`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct MultiheadAttentionOptions {
    /// Whether the projections have biases.
    pub bias: bool,
    /// Whether tensors are `[batch, length, embed_dim]` rather than `[length, batch, embed_dim]`.
    pub batch_first: bool,
}

impl Default for MultiheadAttentionOptions {
    fn default() -> Self {
        Self { bias: true, batch_first: false }
    }
}

/// What a layer will be used for, which decides how its weights are packed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Use {
    /// Query, key and value are one tensor.
    Own,
    /// They are not.
    Cross,
    /// Both.
    Any,
}

/// Attention with several heads, of three Commands where query, key and value are one tensor.
///
/// Parameters: `in_proj_weight` `[3 · embed_dim, embed_dim]`, `in_proj_bias`, `out_proj.weight`,
/// `out_proj.bias`. Tensors are `[length, batch, embed_dim]`, or `[batch, length, embed_dim]` if
/// `batch_first`, or have no batch. The weights of attention are not given back (`need_weights=False` in
/// PyTorch).
pub struct MultiheadAttention {
    /// To query, key and value at once.
    joined: Option<Linear>,
    /// To the query, and to key and value at once.
    split: Option<(Linear, Linear)>,
    out_proj: Linear,
    embed_dim: usize,
    heads: usize,
    batch_first: bool,
}

impl MultiheadAttention {
    /// Takes the parameters.
    ///
    /// # Errors
    ///
    /// Heads that do not divide `embed_dim`, weights that are missing or of another shape, or no memory.
    pub fn new(
        embed_dim: usize,
        num_heads: usize,
        options: MultiheadAttentionOptions,
        weights: &Weights,
    ) -> Result<Self> {
        Self::for_use(Use::Any, embed_dim, num_heads, options, weights)
    }

    pub(super) fn for_use(
        what: Use,
        embed_dim: usize,
        num_heads: usize,
        options: MultiheadAttentionOptions,
        weights: &Weights,
    ) -> Result<Self> {
        if num_heads == 0 || !embed_dim.is_multiple_of(num_heads) {
            return invalid("attention", format!("embed_dim {embed_dim} in {num_heads} heads"));
        }
        let Some(rows) = embed_dim.checked_mul(3) else {
            return invalid("attention", format!("embed_dim {embed_dim}"));
        };
        let init = Init::fan_in(embed_dim);
        let weight = weights.fetch("in_proj_weight", &[rows, embed_dim], init)?;
        let bias = options.bias.then(|| weights.fetch("in_proj_bias", &[rows], Init::Zeros));
        let bias = bias.transpose()?;
        let part = |start: usize, count: usize| {
            let rows = |tensor: &Tensor| tensor.narrow(0, start * embed_dim, count * embed_dim);
            Linear::from_tensors(&rows(&weight)?, bias.as_ref().map(rows).transpose()?)
        };
        let split = || Ok::<_, crate::Error>((part(0, 1)?, part(1, 2)?));
        let out_proj = Linear::new(embed_dim, embed_dim, options.bias, &weights.child("out_proj"))?;
        Ok(Self {
            joined: (what != Use::Cross).then(|| part(0, 3)).transpose()?,
            split: (what != Use::Own).then(split).transpose()?,
            out_proj,
            embed_dim,
            heads: num_heads,
            batch_first: options.batch_first,
        })
    }

    /// Attention of queries to keys and values.
    ///
    /// # Errors
    ///
    /// Shapes, types or a mask that do not fit, or no memory.
    pub fn forward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: &AttentionMask,
    ) -> Result<Tensor> {
        self.forward_fused(query, key, value, mask, None)
    }

    /// As [`forward`](Self::forward), plus a residual.
    pub(super) fn forward_fused(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: &AttentionMask,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        let shapes = [query, key, value].map(Tensor::shape);
        let batch_axis = usize::from(!self.batch_first);
        if shapes.iter().all(|shape| shape.len() == 2) {
            let query = query.unsqueeze(batch_axis)?;
            let key = key.unsqueeze(batch_axis)?;
            let value = value.unsqueeze(batch_axis)?;
            let residual = residual.map(|residual| residual.unsqueeze(batch_axis)).transpose()?;
            let result = self.forward_fused(&query, &key, &value, mask, residual.as_ref())?;
            return result.squeeze(batch_axis);
        }
        let fits = |shape: &[usize]| shape.len() == 3 && shape[2] == self.embed_dim;
        if !shapes.iter().all(|shape| fits(shape)) || shapes[1] != shapes[2] {
            let ([query, key, value], size) = (shapes, self.embed_dim);
            return invalid(
                "attention",
                format!("query {query:?}, key {key:?} and value {value:?} for embed_dim {size}"),
            );
        }
        let attended = self.attend(query, key, value, mask)?;
        self.out_proj.forward_fused(&attended, residual, Activation::None)
    }

    fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: &AttentionMask,
    ) -> Result<Tensor> {
        let one = same(query, key) && same(key, value);
        let [q, k, v] = match (&self.joined, &self.split) {
            (Some(joined), _) if one => {
                let all = joined.forward(query)?;
                [self.part(&all, 0)?, self.part(&all, 1)?, self.part(&all, 2)?]
            }
            (_, Some((to_query, to_rest))) => {
                let rest = to_rest.forward(key)?;
                let v = match same(key, value) {
                    true => self.part(&rest, 1)?,
                    false => self.part(&to_rest.forward(value)?, 1)?,
                };
                [self.part(&to_query.forward(query)?, 0)?, self.part(&rest, 0)?, v]
            }
            _ => return invalid("attention", "query, key and value must be one tensor".into()),
        };
        let recorder = Recorder::new("attention", &query.device())?;
        let attended = recorder.output(query.dtype(), query.shape())?;
        recorder.record(Command::attention(
            self.part(&attended, 0)?.operand(),
            q.operand(),
            k.operand(),
            v.operand(),
            mask.seen().map(Tensor::operand),
            1.0 / ((self.embed_dim / self.heads) as f32).sqrt(),
            mask.is_causal(),
        ))?;
        Ok(attended)
    }

    /// One of the parts that lie side by side on the last axis, as `[batch, heads, length, size]`.
    fn part(&self, projected: &Tensor, part: usize) -> Result<Tensor> {
        let &[first, second, _] = projected.shape() else {
            return invalid("attention", format!("shape {:?}", projected.shape()));
        };
        let (strides, size) = (projected.layout().strides(), self.embed_dim / self.heads);
        let (batch, length) = match self.batch_first {
            true => ((first, strides[0]), (second, strides[1])),
            false => ((second, strides[1]), (first, strides[0])),
        };
        projected.strided(
            "attention",
            &[batch.0, self.heads, length.0, size],
            &[batch.1, size, length.1, 1],
            part * self.embed_dim,
        )
    }
}

/// Whether two tensors are the same view of the same memory.
fn same(one: &Tensor, other: &Tensor) -> bool {
    one.buffer().identity() == other.buffer().identity() && one.layout() == other.layout()
}

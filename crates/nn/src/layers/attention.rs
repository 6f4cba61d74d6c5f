//! Attention with several heads.

use millstream_core::{Activation, Command, LayerName};

use super::projection::{AttentionKind, Projected, Projection};
use super::{AttentionMask, Linear};
use crate::error::invalid;
use crate::tensor::OpRecorder;
use crate::{Result, Tensor, Weights};

/// The options of a [`MultiheadAttention`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct MultiheadAttentionOptions {
    /// Whether the projections have biases.
    pub bias: bool,
    /// Whether tensors are `[batch, length, embed_dim]` rather than `[length, batch, embed_dim]`.
    pub batch_first: bool,
    /// The size of keys, where it is not `embed_dim`.
    pub kdim: Option<usize>,
    /// The size of values, where it is not `embed_dim`.
    pub vdim: Option<usize>,
}

impl Default for MultiheadAttentionOptions {
    fn default() -> Self {
        Self { bias: true, batch_first: false, kdim: None, vdim: None }
    }
}

/// Attention with several heads, of three Commands where query, key and value are one tensor.
///
/// Parameters: `in_proj_weight` `[3 · embed_dim, embed_dim]`, `in_proj_bias`, `out_proj.weight`,
/// `out_proj.bias`. Tensors are `[length, batch, embed_dim]`, or `[batch, length, embed_dim]` if
/// `batch_first`, or have no batch. The weights of attention are not given back (`need_weights=False` in
/// PyTorch). Where `kdim` or `vdim` is given, there are `q_proj_weight`, `k_proj_weight` and `v_proj_weight`
/// in place of `in_proj_weight`.
///
/// The first weight is packed twice, for self-attention and for any other; transformer layers, which know
/// what they need, pack it once.
pub struct MultiheadAttention {
    projection: Projection,
    out_proj: Linear,
    embed_dim: usize,
    heads: usize,
    batch_first: bool,
    name: LayerName,
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
        Self::of_kind(AttentionKind::Any, embed_dim, num_heads, options, weights)
    }

    pub(super) fn of_kind(
        kind: AttentionKind,
        embed_dim: usize,
        num_heads: usize,
        options: MultiheadAttentionOptions,
        weights: &Weights,
    ) -> Result<Self> {
        if num_heads == 0 || !embed_dim.is_multiple_of(num_heads) {
            return invalid("attention", format!("embed_dim {embed_dim} in {num_heads} heads"));
        }
        let out = weights.child("out_proj");
        Ok(Self {
            projection: Projection::new(kind, embed_dim, &options, weights)?,
            out_proj: Linear::new(embed_dim, embed_dim, options.bias, &out)?,
            embed_dim,
            heads: num_heads,
            batch_first: options.batch_first,
            name: weights.layer_name("MultiheadAttention"),
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
        let _layer = self.name.enter();
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
        let [query_shape, key_shape, value_shape] = shapes;
        let three = shapes.iter().all(|shape| shape.len() == 3);
        if !three || key_shape[..2] != value_shape[..2] || query_shape[2] != self.embed_dim {
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
        let [q, k, v] = self.projection.apply(query, key, value)?;
        let [q, k, v] = [self.heads(&q)?, self.heads(&k)?, self.heads(&v)?];
        let recorder = OpRecorder::new("attention", &query.device())?;
        let attended = recorder.output(query.dtype(), query.shape())?;
        let result = self.heads(&Projected { product: attended.clone(), index: 0 })?;
        recorder.record(Command::attention(
            result.operand(),
            q.operand(),
            k.operand(),
            v.operand(),
            mask.seen().map(Tensor::operand),
            1.0 / ((self.embed_dim / self.heads) as f32).sqrt(),
            mask.is_causal(),
        ))?;
        Ok(attended)
    }

    /// A part of a product as `[batch, heads, length, size]`.
    fn heads(&self, part: &Projected) -> Result<Tensor> {
        let &[first, second, _] = part.product.shape() else {
            return invalid("attention", format!("shape {:?}", part.product.shape()));
        };
        let (strides, size) = (part.product.layout().strides(), self.embed_dim / self.heads);
        let (batch, length) = match self.batch_first {
            true => ((first, strides[0]), (second, strides[1])),
            false => ((second, strides[1]), (first, strides[0])),
        };
        part.product.strided(
            "attention",
            &[batch.0, self.heads, length.0, size],
            &[batch.1, size, length.1, 1],
            part.index * self.embed_dim,
        )
    }
}

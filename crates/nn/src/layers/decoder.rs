//! Transformer decoders.

use super::attention::MultiheadAttention;
use super::norm::LayerNorm;
use super::projection::AttentionKind;
use super::transformer::{FeedForward, Residual, TransformerOptions, attend_self};
use super::{AttentionMask, MAX_LAYERS, Module};
use crate::error::invalid;
use crate::{Result, Tensor, Weights};

/// One layer of a transformer decoder, of twelve Commands.
///
/// Parameters: `self_attn.*` and `multihead_attn.*` as in [`MultiheadAttention`], `linear1.*`, `linear2.*`,
/// `norm1.*`, `norm2.*`, `norm3.*`.
pub struct TransformerDecoderLayer {
    self_attn: MultiheadAttention,
    multihead_attn: MultiheadAttention,
    feed_forward: FeedForward,
    norm1: Residual,
    norm2: Residual,
    norm3: Residual,
}

impl TransformerDecoderLayer {
    /// Takes the parameters.
    ///
    /// # Errors
    ///
    /// Heads that do not divide `d_model`, weights that are missing or of another shape, or no memory.
    pub fn new(
        d_model: usize,
        nhead: usize,
        options: TransformerOptions,
        weights: &Weights,
    ) -> Result<Self> {
        let attention = |kind, name| options.attention(kind, d_model, nhead, &weights.child(name));
        let norm = |name| Residual::new(&options, d_model, &weights.child(name));
        Ok(Self {
            self_attn: attention(AttentionKind::SelfAttention, "self_attn")?,
            multihead_attn: attention(AttentionKind::CrossAttention, "multihead_attn")?,
            feed_forward: FeedForward::new(&options, d_model, weights)?,
            norm1: norm("norm1")?,
            norm2: norm("norm2")?,
            norm3: norm("norm3")?,
        })
    }

    /// The layer over a target and the memory of an encoder, each with its mask.
    ///
    /// # Errors
    ///
    /// Tensors or masks of the wrong shape or type, or no memory.
    pub fn forward(
        &self,
        target: &Tensor,
        memory: &Tensor,
        target_mask: &AttentionMask,
        memory_mask: &AttentionMask,
    ) -> Result<Tensor> {
        let value = self.norm1.around(target, |input, residual| {
            attend_self(&self.self_attn, input, target_mask, residual)
        })?;
        let value = self.norm2.around(&value, |input, residual| {
            self.multihead_attn.forward_fused(input, memory, memory, memory_mask, Some(residual))
        })?;
        self.norm3.around(&value, |input, residual| self.feed_forward.forward(input, residual))
    }
}

/// Several decoder layers, and a norm behind them if wanted.
///
/// Parameters: `layers.0.*`, `layers.1.*`, …, `norm.*`.
pub struct TransformerDecoder {
    layers: Vec<TransformerDecoderLayer>,
    norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// Takes the parameters of `num_layers` layers, and of `norm` if there is to be one.
    ///
    /// # Errors
    ///
    /// As for [`TransformerDecoderLayer::new`].
    pub fn new(
        d_model: usize,
        nhead: usize,
        num_layers: usize,
        norm: bool,
        options: TransformerOptions,
        weights: &Weights,
    ) -> Result<Self> {
        if num_layers > MAX_LAYERS {
            return invalid("decoder", format!("{num_layers} layers, above {MAX_LAYERS}"));
        }
        let layers = weights.child("layers");
        let layer =
            |index| TransformerDecoderLayer::new(d_model, nhead, options, &layers.child(index));
        Ok(Self {
            layers: (0..num_layers).map(layer).collect::<Result<_>>()?,
            norm: norm.then(|| options.norm(d_model, &weights.child("norm"))).transpose()?,
        })
    }

    /// The layers over a target and the memory of an encoder, each with its mask.
    ///
    /// # Errors
    ///
    /// Tensors or masks of the wrong shape or type, or no memory.
    pub fn forward(
        &self,
        target: &Tensor,
        memory: &Tensor,
        target_mask: &AttentionMask,
        memory_mask: &AttentionMask,
    ) -> Result<Tensor> {
        let mut value = target.clone();
        for layer in &self.layers {
            value = layer.forward(&value, memory, target_mask, memory_mask)?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&value),
            None => Ok(value),
        }
    }
}

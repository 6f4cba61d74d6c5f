//! Transformer decoders.

use super::AttentionMask;
use super::attention::MultiheadAttention;
use super::projection::Use;
use super::transformer::{FeedForward, Residual, TransformerOptions, attend_self};
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
        let attention = |what, name| options.attention(what, d_model, nhead, &weights.child(name));
        let norm = |name| Residual::new(&options, d_model, &weights.child(name));
        Ok(Self {
            self_attn: attention(Use::Own, "self_attn")?,
            multihead_attn: attention(Use::Cross, "multihead_attn")?,
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

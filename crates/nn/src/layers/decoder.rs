//! Transformer decoders.

use std::fmt;

use super::attention::MultiheadAttention;
use super::cache::KeyValueCache;
use super::linear::Linear;
use super::norm::LayerNorm;
use super::projection::AttentionKind;
use super::stack::Stack;
use super::transformer::{FeedForward, Residual, TransformerOptions};
use super::{AttentionMask, Description};
use crate::{Result, Tensor, Weights};

/// One layer of a transformer decoder. A call records twelve Commands.
///
/// Parameters: `self_attn.*` and `multihead_attn.*` as in [`MultiheadAttention`], `linear1.*`, `linear2.*`,
/// `norm1.*`, `norm2.*`, `norm3.*`.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{AttentionMask, TransformerDecoderLayer, TransformerOptions, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let options = TransformerOptions { batch_first: true, dim_feedforward: 64, ..Default::default() };
/// let layer = Weights::random(1, DType::F32, &device)
///     .load(|weights| TransformerDecoderLayer::new(32, 4, options, weights))?;
/// let (target, memory) = (
///     Tensor::randn(&[1, 3, 32], 1, DType::F32, &device)?,
///     Tensor::randn(&[1, 5, 32], 2, DType::F32, &device)?, // from an encoder
/// );
/// let output = layer.forward(&target, &memory, &AttentionMask::causal(), &AttentionMask::none())?;
/// assert_eq!(output.shape(), [1, 3, 32]);
/// # Ok::<(), millstream::Error>(())
/// ```
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
        let linear = ["linear1", "linear2"].map(|name| weights.child(name));
        let norm = |name| Residual::new(&options, d_model, &weights.child(name));
        Ok(Self {
            self_attn: attention(AttentionKind::SelfAttention, "self_attn")?,
            multihead_attn: attention(AttentionKind::CrossAttention, "multihead_attn")?,
            feed_forward: FeedForward::new(&options, d_model, linear.each_ref())?,
            norm1: norm("norm1")?,
            norm2: norm("norm2")?,
            norm3: norm("norm3")?,
        })
    }

    /// From parts whose weights have other names.
    pub(crate) fn of(
        [self_attn, multihead_attn]: [MultiheadAttention; 2],
        feed_forward: FeedForward,
        [norm1, norm2, norm3]: [Residual; 3],
    ) -> Self {
        Self { self_attn, multihead_attn, feed_forward, norm1, norm2, norm3 }
    }

    /// The parts, for models that print them under other names.
    pub(crate) fn parts(&self) -> ([&MultiheadAttention; 2], [&Linear; 2], [&LayerNorm; 3]) {
        let norms = [&self.norm1, &self.norm2, &self.norm3].map(Residual::norm);
        ([&self.self_attn, &self.multihead_attn], self.feed_forward.linears(), norms)
    }

    /// Applies the layer to a target and the output of an encoder (`memory`), each with its mask.
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
        self.forward_with(
            target,
            |input, residual| {
                self.self_attn.forward_fused(input, input, input, target_mask, Some(residual))
            },
            |input, residual| {
                let attention = &self.multihead_attn;
                attention.forward_fused(input, memory, memory, memory_mask, Some(residual))
            },
        )
    }

    /// Keys and values of a memory, for [`forward_remembered`](Self::forward_remembered).
    pub(crate) fn remember(&self, memory: &Tensor) -> Result<Tensor> {
        self.multihead_attn.remember(memory)
    }

    /// Applies the layer with the keys and values from [`remember`](Self::remember). With a cache, the target is the
    /// tokens of one step, which also attend to the tokens of earlier steps.
    pub(crate) fn forward_remembered(
        &self,
        target: &Tensor,
        cache: Option<&mut KeyValueCache>,
        target_mask: &AttentionMask,
        remembered: &Tensor,
        memory_mask: &AttentionMask,
    ) -> Result<Tensor> {
        let attention = &self.self_attn;
        self.forward_with(
            target,
            |input, residual| match cache {
                Some(cache) => attention.forward_cached(input, cache, target_mask, residual),
                None => attention.forward_fused(input, input, input, target_mask, Some(residual)),
            },
            |input, residual| {
                let attention = &self.multihead_attn;
                attention.forward_remembered(input, remembered, memory_mask, residual)
            },
        )
    }

    /// Applies the layer with these two attentions. Each gets its input and the residual to add.
    fn forward_with(
        &self,
        target: &Tensor,
        attend_self: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
        attend_memory: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let value = self.norm1.around(target, attend_self)?;
        let value = self.norm2.around(&value, attend_memory)?;
        self.norm3.around(&value, |input, residual| self.feed_forward.forward(input, residual))
    }
}

/// Several decoder layers, and optionally a norm after them.
///
/// Parameters: `layers.0.*`, `layers.1.*`, …, `norm.*`.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{AttentionMask, TransformerDecoder, TransformerOptions, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let options = TransformerOptions { batch_first: true, dim_feedforward: 64, ..Default::default() };
/// let decoder = Weights::random(1, DType::F32, &device)
///     .load(|weights| TransformerDecoder::new(32, 4, 2, true, options, weights))?;
/// let (target, memory) = (
///     Tensor::randn(&[1, 3, 32], 1, DType::F32, &device)?,
///     Tensor::randn(&[1, 5, 32], 2, DType::F32, &device)?, // from an encoder
/// );
/// let output = decoder.forward(&target, &memory, &AttentionMask::causal(), &AttentionMask::none())?;
/// assert_eq!(output.shape(), [1, 3, 32]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct TransformerDecoder(Stack<TransformerDecoderLayer>);

impl TransformerDecoder {
    /// Takes the parameters of `num_layers` layers, and of a norm after them if `norm`.
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
        let norm = norm.then(|| options.norm(d_model, &weights.child("norm"))).transpose()?;
        let layers = weights.child("layers");
        let layer =
            |index| TransformerDecoderLayer::new(d_model, nhead, options, &layers.child(index));
        Ok(Self(Stack::new("decoder", num_layers, norm, layer)?))
    }

    /// Applies the layers to a target and the output of an encoder (`memory`), each with its mask.
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
        self.0.forward(target.clone(), |layer, value| {
            layer.forward(value, memory, target_mask, memory_mask)
        })
    }
}

impl fmt::Debug for TransformerDecoderLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let description = Description::new("TransformerDecoderLayer")
            .child("self_attn", &self.self_attn)
            .child("multihead_attn", &self.multihead_attn);
        let description = self.feed_forward.describe(description);
        let (_, _, [norm1, norm2, norm3]) = self.parts();
        description.child("norm1", norm1).child("norm2", norm2).child("norm3", norm3).write(f)
    }
}

impl fmt::Debug for TransformerDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe("TransformerDecoder").write(f)
    }
}

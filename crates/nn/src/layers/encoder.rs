//! Transformer encoders.

use std::fmt;

use super::attention::MultiheadAttention;
use super::describe::described;
use super::linear::Linear;
use super::norm::LayerNorm;
use super::projection::AttentionKind;
use super::stack::Stack;
use super::transformer::{FeedForward, Residual, TransformerOptions};
use super::{AttentionMask, Description, Module};
use crate::{Result, Tensor, Weights};

/// One layer of a transformer encoder, of seven Commands.
///
/// Parameters: `self_attn.*` as in [`MultiheadAttention`], `linear1.*`, `linear2.*`, `norm1.*`, `norm2.*`.
///
/// # Example
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{AttentionMask, Module, TransformerEncoderLayer, TransformerOptions, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let options = TransformerOptions { batch_first: true, dim_feedforward: 64, ..Default::default() };
/// let layer = Weights::random(1, DType::F32, &device)
///     .load(|weights| TransformerEncoderLayer::new(32, 4, options, weights))?;
/// let input = Tensor::randn(&[2, 5, 32], 3, DType::F32, &device)?;
/// let before = device.stream()?.counters().commands;
/// let output = layer.forward(&input)?;
/// assert_eq!(device.stream()?.counters().commands - before, 7);
/// assert_eq!(output.shape(), [2, 5, 32]);
/// layer.forward_masked(&input, &AttentionMask::causal())?;
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct TransformerEncoderLayer {
    self_attn: MultiheadAttention,
    feed_forward: FeedForward,
    norm1: Residual,
    norm2: Residual,
}

impl TransformerEncoderLayer {
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
        let attention = weights.child("self_attn");
        let linear = ["linear1", "linear2"].map(|name| weights.child(name));
        Ok(Self {
            self_attn: options.attention(
                AttentionKind::SelfAttention,
                d_model,
                nhead,
                &attention,
            )?,
            feed_forward: FeedForward::new(&options, d_model, linear.each_ref())?,
            norm1: Residual::new(&options, d_model, &weights.child("norm1"))?,
            norm2: Residual::new(&options, d_model, &weights.child("norm2"))?,
        })
    }

    /// From parts that have names of their own.
    pub(crate) fn of(
        self_attn: MultiheadAttention,
        feed_forward: FeedForward,
        [norm1, norm2]: [Residual; 2],
    ) -> Self {
        Self { self_attn, feed_forward, norm1, norm2 }
    }

    /// The parts, for those who print them under names of their own.
    pub(crate) fn parts(&self) -> (&MultiheadAttention, [&Linear; 2], [&LayerNorm; 2]) {
        let norms = [&self.norm1, &self.norm2].map(Residual::norm);
        (&self.self_attn, self.feed_forward.linears(), norms)
    }

    /// The layer, where a mask says which keys are seen.
    ///
    /// # Errors
    ///
    /// An input or a mask of the wrong shape or type, or no memory.
    pub fn forward_masked(&self, input: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
        let attended = self.norm1.around(input, |input, residual| {
            self.self_attn.forward_fused(input, input, input, mask, Some(residual))
        })?;
        self.norm2.around(&attended, |input, residual| self.feed_forward.forward(input, residual))
    }
}

impl Module for TransformerEncoderLayer {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_masked(input, &AttentionMask::none())
    }

    described!();
}

/// Several encoder layers, and a norm behind them if wanted.
///
/// Parameters: `layers.0.*`, `layers.1.*`, …, `norm.*`.
pub struct TransformerEncoder(Stack<TransformerEncoderLayer>);

impl TransformerEncoder {
    /// Takes the parameters of `num_layers` layers, and of `norm` if there is to be one.
    ///
    /// # Errors
    ///
    /// As for [`TransformerEncoderLayer::new`].
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
            |index| TransformerEncoderLayer::new(d_model, nhead, options, &layers.child(index));
        Ok(Self(Stack::new("encoder", num_layers, norm, layer)?))
    }

    /// The layers, where a mask says which keys are seen.
    ///
    /// # Errors
    ///
    /// An input or a mask of the wrong shape or type, or no memory.
    pub fn forward_masked(&self, input: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
        self.0.forward(input.clone(), |layer, value| layer.forward_masked(value, mask))
    }
}

impl Module for TransformerEncoder {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_masked(input, &AttentionMask::none())
    }

    described!();
}

impl fmt::Debug for TransformerEncoderLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let description = Description::new("TransformerEncoderLayer");
        let description = description.child("self_attn", &self.self_attn);
        let description = self.feed_forward.describe(description);
        description.child("norm1", self.norm1.norm()).child("norm2", self.norm2.norm()).write(f)
    }
}

impl fmt::Debug for TransformerEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe("TransformerEncoder").write(f)
    }
}

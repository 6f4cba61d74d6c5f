//! Transformer encoders.

use super::attention::MultiheadAttention;
use super::norm::LayerNorm;
use super::projection::AttentionKind;
use super::transformer::{FeedForward, Residual, TransformerOptions, attend_self};
use super::{AttentionMask, MAX_LAYERS, Module};
use crate::error::invalid;
use crate::{Result, Tensor, Weights};

/// One layer of a transformer encoder, of seven Commands.
///
/// Parameters: `self_attn.*` as in [`MultiheadAttention`], `linear1.*`, `linear2.*`, `norm1.*`, `norm2.*`.
///
/// # Example
///
/// ```
/// # use millstream_cpu as _;
/// use millstream_core::{DType, Device};
/// use millstream_nn::{AttentionMask, Module, Tensor, TransformerEncoderLayer, TransformerOptions, Weights};
///
/// # fn main() -> millstream_nn::Result<()> {
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
/// # Ok(())
/// # }
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
        Ok(Self {
            self_attn: options.attention(
                AttentionKind::SelfAttention,
                d_model,
                nhead,
                &weights.child("self_attn"),
            )?,
            feed_forward: FeedForward::new(&options, d_model, weights)?,
            norm1: Residual::new(&options, d_model, &weights.child("norm1"))?,
            norm2: Residual::new(&options, d_model, &weights.child("norm2"))?,
        })
    }

    /// The layer, where a mask says which keys are seen.
    ///
    /// # Errors
    ///
    /// An input or a mask of the wrong shape or type, or no memory.
    pub fn forward_masked(&self, input: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
        let attended = self
            .norm1
            .around(input, |input, residual| attend_self(&self.self_attn, input, mask, residual))?;
        self.norm2.around(&attended, |input, residual| self.feed_forward.forward(input, residual))
    }
}

impl Module for TransformerEncoderLayer {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_masked(input, &AttentionMask::none())
    }
}

/// Several encoder layers, and a norm behind them if wanted.
///
/// Parameters: `layers.0.*`, `layers.1.*`, …, `norm.*`.
pub struct TransformerEncoder {
    layers: Vec<TransformerEncoderLayer>,
    norm: Option<LayerNorm>,
}

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
        if num_layers > MAX_LAYERS {
            return invalid("encoder", format!("{num_layers} layers, above {MAX_LAYERS}"));
        }
        let layers = weights.child("layers");
        let layer =
            |index| TransformerEncoderLayer::new(d_model, nhead, options, &layers.child(index));
        Ok(Self {
            layers: (0..num_layers).map(layer).collect::<Result<_>>()?,
            norm: norm.then(|| options.norm(d_model, &weights.child("norm"))).transpose()?,
        })
    }

    /// The layers, where a mask says which keys are seen.
    ///
    /// # Errors
    ///
    /// An input or a mask of the wrong shape or type, or no memory.
    pub fn forward_masked(&self, input: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
        let mut value = input.clone();
        for layer in &self.layers {
            value = layer.forward_masked(&value, mask)?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&value),
            None => Ok(value),
        }
    }
}

impl Module for TransformerEncoder {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_masked(input, &AttentionMask::none())
    }
}

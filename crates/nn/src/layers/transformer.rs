//! What transformer layers have in common.

use millstream_core::Activation;

use super::attention::{MultiheadAttention, MultiheadAttentionOptions};
use super::linear::Linear;
use super::norm::{LayerNorm, LayerNormOptions};
use super::projection::AttentionKind;
use super::{Description, Module};
use crate::{Result, Tensor, Weights};

/// The options of transformer layers, with PyTorch's defaults.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::command::Activation;
/// use millstream::nn::TransformerOptions;
///
/// let options = TransformerOptions { batch_first: true, activation: Activation::Gelu, ..Default::default() };
/// assert_eq!((options.dim_feedforward, options.norm_first), (2048, false)); // as in PyTorch
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TransformerOptions {
    /// The size between the two linear layers.
    pub dim_feedforward: usize,
    /// The activation between them.
    pub activation: Activation,
    /// Added to the variance by the norms.
    pub layer_norm_eps: f32,
    /// Whether tensors are `[batch, length, d_model]` rather than `[length, batch, d_model]`.
    pub batch_first: bool,
    /// Whether a norm comes before its block (pre-norm) rather than after the residual sum (post-norm).
    pub norm_first: bool,
    /// Whether linear layers and norms have biases.
    pub bias: bool,
}

impl Default for TransformerOptions {
    fn default() -> Self {
        Self {
            dim_feedforward: 2048,
            activation: Activation::Relu,
            layer_norm_eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
        }
    }
}

impl TransformerOptions {
    pub(crate) fn norm(&self, size: usize, weights: &Weights) -> Result<LayerNorm> {
        let options = LayerNormOptions {
            eps: self.layer_norm_eps,
            bias: self.bias,
            elementwise_affine: true,
        };
        LayerNorm::new(&[size], options, weights)
    }

    pub(super) fn attention(
        &self,
        kind: AttentionKind,
        size: usize,
        heads: usize,
        weights: &Weights,
    ) -> Result<MultiheadAttention> {
        let options = MultiheadAttentionOptions {
            bias: self.bias,
            batch_first: self.batch_first,
            ..Default::default()
        };
        MultiheadAttention::of_kind(kind, size, heads, options, weights)
    }
}

/// A block with its norm: `x + block(norm(x))`, or `norm(x + block(x))`.
pub(crate) struct Residual {
    norm: LayerNorm,
    norm_first: bool,
}

impl Residual {
    /// Takes the norm from the weights.
    pub fn new(options: &TransformerOptions, size: usize, weights: &Weights) -> Result<Self> {
        Ok(Self { norm: options.norm(size, weights)?, norm_first: options.norm_first })
    }

    pub fn norm(&self) -> &LayerNorm {
        &self.norm
    }

    /// Applies `block` with its norm. `block` gets its input and the residual to add, and must return new memory.
    pub fn around(
        &self,
        input: &Tensor,
        block: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        if self.norm_first {
            block(&self.norm.forward(input)?, input)
        } else {
            self.norm.forward_in_place(block(input, input)?)
        }
    }
}

/// The two linear layers of a transformer layer.
pub(crate) struct FeedForward {
    linear1: Linear,
    linear2: Linear,
    activation: Activation,
}

impl FeedForward {
    /// Takes the parameters of the two layers, each from its own weights.
    pub fn new(
        options: &TransformerOptions,
        size: usize,
        [first, second]: [&Weights; 2],
    ) -> Result<Self> {
        let (inner, bias) = (options.dim_feedforward, options.bias);
        Ok(Self {
            linear1: Linear::new(size, inner, bias, first)?,
            linear2: Linear::new(inner, size, bias, second)?,
            activation: options.activation,
        })
    }

    pub fn linears(&self) -> [&Linear; 2] {
        [&self.linear1, &self.linear2]
    }

    /// Adds both layers to what a transformer layer prints.
    pub fn describe(&self, description: Description) -> Description {
        description.child("linear1", &self.linear1).child("linear2", &self.linear2)
    }

    pub fn forward(&self, input: &Tensor, residual: &Tensor) -> Result<Tensor> {
        let inner = self.linear1.forward_activated(input, self.activation)?;
        self.linear2.forward_fused(&inner, Some(residual), Activation::None)
    }
}

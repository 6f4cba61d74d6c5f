//! One layer of a BERT-type encoder.

use millstream_core::{Activation, LayerName};

use super::BertConfig;
use crate::models::blocks::{FeedForward, attend, heads, joined};
use crate::{LayerNorm, LayerNormOptions, Linear, Module, Result, Tensor, Weights};

/// Attention and two linear layers, each with a residual and a norm behind it: seven Commands.
pub struct Layer {
    projection: Linear,
    output: Linear,
    attention_norm: LayerNorm,
    feed_forward: FeedForward,
    output_norm: LayerNorm,
    size: usize,
    heads: usize,
    attention_name: LayerName,
}

impl Layer {
    pub fn new(config: &BertConfig, weights: &Weights) -> Result<Self> {
        let (size, inner) = (config.hidden_size, config.intermediate_size);
        let attention = weights.child("attention");
        let linear = |inputs, outputs, weights: &Weights| {
            Linear::new(inputs, outputs, true, &weights.child("dense"))
        };
        let itself = attention.child("self");
        let after_attention = attention.child("output");
        let after = weights.child("output");
        Ok(Self {
            projection: joined(size, &["query", "key", "value"], &itself)?,
            output: linear(size, size, &after_attention)?,
            attention_norm: norm(config, &after_attention)?,
            feed_forward: FeedForward::new(
                linear(size, inner, &weights.child("intermediate"))?,
                linear(inner, size, &after)?,
                config.hidden_act,
            ),
            output_norm: norm(config, &after)?,
            size,
            heads: config.num_attention_heads,
            attention_name: itself.layer_name("BertLayer"),
        })
    }

    pub fn forward(&self, input: &Tensor, seen: Option<&Tensor>) -> Result<Tensor> {
        let attended = self.attend(input, seen)?;
        let sum = self.output.forward_fused(&attended, Some(input), Activation::None)?;
        let attended = self.attention_norm.forward_in_place(sum)?;
        self.output_norm.forward_in_place(self.feed_forward.forward(&attended, &attended)?)
    }

    fn attend(&self, input: &Tensor, seen: Option<&Tensor>) -> Result<Tensor> {
        let _layer = self.attention_name.enter();
        let product = self.projection.forward(input)?;
        let part = |index| heads(&product, index, self.size, self.heads);
        attend([&part(0)?, &part(1)?, &part(2)?], seen, false)
    }
}

pub fn norm(config: &BertConfig, weights: &Weights) -> Result<LayerNorm> {
    let options = LayerNormOptions { eps: config.layer_norm_eps, ..Default::default() };
    LayerNorm::new(&[config.hidden_size], options, &weights.child("LayerNorm"))
}

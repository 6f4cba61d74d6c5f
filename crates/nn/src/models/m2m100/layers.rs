//! Layers of encoder and decoder. Norms come before their blocks.

use millstream_core::{Activation, LayerName};

use super::M2M100Config;
use crate::models::blocks::{FeedForward, attend, heads, joined};
use crate::{LayerNorm, LayerNormOptions, Linear, Module, Result, Tensor, Weights};

/// `x + attention(norm(x))` of a sequence to itself.
struct SelfAttention {
    norm: LayerNorm,
    projection: Linear,
    output: Linear,
    name: LayerName,
}

impl SelfAttention {
    fn new(size: usize, weights: &Weights) -> Result<Self> {
        let attention = weights.child("self_attn");
        Ok(Self {
            norm: norm(size, "self_attn_layer_norm", weights)?,
            projection: joined(size, &["q_proj", "k_proj", "v_proj"], &attention)?,
            output: Linear::new(size, size, true, &attention.child("out_proj"))?,
            name: attention.layer_name("SelfAttention"),
        })
    }

    /// `attend` is given query, key and value side by side.
    fn forward(
        &self,
        input: &Tensor,
        attend: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let normed = self.norm.forward(input)?;
        let _layer = self.name.enter();
        let attended = attend(&self.projection.forward(&normed)?)?;
        self.output.forward_fused(&attended, Some(input), Activation::None)
    }
}

/// Seven Commands.
pub struct EncoderLayer {
    attention: SelfAttention,
    norm: LayerNorm,
    feed_forward: FeedForward,
    size: usize,
    heads: usize,
}

impl EncoderLayer {
    pub fn new(config: &M2M100Config, weights: &Weights) -> Result<Self> {
        let size = config.d_model;
        Ok(Self {
            attention: SelfAttention::new(size, weights)?,
            norm: norm(size, "final_layer_norm", weights)?,
            feed_forward: feed_forward(config, config.encoder_ffn_dim, weights)?,
            size,
            heads: config.encoder_attention_heads,
        })
    }

    pub fn forward(&self, input: &Tensor, seen: Option<&Tensor>) -> Result<Tensor> {
        let attended = self
            .attention
            .forward(input, |product| attend_itself(product, self.size, self.heads, seen, false))?;
        self.feed_forward.forward(&self.norm.forward(&attended)?, &attended)
    }
}

/// Twelve Commands for a step, of which two keep its keys and attend to them.
pub struct DecoderLayer {
    attention: SelfAttention,
    cross_norm: LayerNorm,
    cross_query: Linear,
    cross_memory: Linear,
    cross_output: Linear,
    cross_name: LayerName,
    norm: LayerNorm,
    feed_forward: FeedForward,
    size: usize,
    heads: usize,
}

impl DecoderLayer {
    pub fn new(config: &M2M100Config, weights: &Weights) -> Result<Self> {
        let size = config.d_model;
        let cross = weights.child("encoder_attn");
        Ok(Self {
            attention: SelfAttention::new(size, weights)?,
            cross_norm: norm(size, "encoder_attn_layer_norm", weights)?,
            cross_query: Linear::new(size, size, true, &cross.child("q_proj"))?,
            cross_memory: joined(size, &["k_proj", "v_proj"], &cross)?,
            cross_output: Linear::new(size, size, true, &cross.child("out_proj"))?,
            cross_name: cross.layer_name("CrossAttention"),
            norm: norm(size, "final_layer_norm", weights)?,
            feed_forward: feed_forward(config, config.decoder_ffn_dim, weights)?,
            size,
            heads: config.decoder_attention_heads,
        })
    }

    /// Keys and values of what the encoder gave, side by side, for all steps.
    pub fn remember(&self, encoded: &Tensor) -> Result<Tensor> {
        self.cross_memory.forward(encoded)
    }

    /// The layer over tokens `[batch, length, size]`. `attend_earlier` is given query, key and value of them
    /// side by side.
    pub fn forward(
        &self,
        input: &Tensor,
        memory: &Tensor,
        memory_seen: Option<&Tensor>,
        attend_earlier: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let own = self.attention.forward(input, attend_earlier)?;
        let attended = self.attend_memory(&self.cross_norm.forward(&own)?, memory, memory_seen)?;
        let cross = self.cross_output.forward_fused(&attended, Some(&own), Activation::None)?;
        self.feed_forward.forward(&self.norm.forward(&cross)?, &cross)
    }

    fn attend_memory(
        &self,
        input: &Tensor,
        memory: &Tensor,
        memory_seen: Option<&Tensor>,
    ) -> Result<Tensor> {
        let _layer = self.cross_name.enter();
        let query = self.cross_query.forward(input)?;
        let query = heads(&query, 0, self.size, self.heads)?;
        let [key, value] = [0, 1].map(|part| heads(memory, part, self.size, self.heads));
        attend([&query, &key?, &value?], memory_seen, false)
    }
}

/// Attention of a sequence to itself, from query, key and value side by side.
pub fn attend_itself(
    product: &Tensor,
    size: usize,
    count: usize,
    seen: Option<&Tensor>,
    causal: bool,
) -> Result<Tensor> {
    let part = |index| heads(product, index, size, count);
    attend([&part(0)?, &part(1)?, &part(2)?], seen, causal)
}

pub fn norm(size: usize, name: &str, weights: &Weights) -> Result<LayerNorm> {
    LayerNorm::new(&[size], LayerNormOptions::default(), &weights.child(name))
}

fn feed_forward(config: &M2M100Config, inner: usize, weights: &Weights) -> Result<FeedForward> {
    Ok(FeedForward::new(
        Linear::new(config.d_model, inner, true, &weights.child("fc1"))?,
        Linear::new(inner, config.d_model, true, &weights.child("fc2"))?,
        config.activation_function,
    ))
}

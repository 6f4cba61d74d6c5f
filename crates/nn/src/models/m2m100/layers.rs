//! Layers of encoder and decoder, by the names of their weights. They are pre-norm.

use std::fmt;

use super::M2M100Config;
use crate::layers::{AttentionKind, FeedForward, Residual};
use crate::{
    Description, LayerNorm, LayerNormOptions, Linear, MultiheadAttention, Result,
    TransformerDecoderLayer, TransformerEncoderLayer, TransformerOptions, Weights,
};

const PROJECTIONS: [&str; 3] = ["q_proj", "k_proj", "v_proj"];

/// The sizes and weights of the layers of one side.
struct LayerWeights<'a> {
    options: TransformerOptions,
    size: usize,
    heads: usize,
    weights: &'a Weights,
}

impl LayerWeights<'_> {
    fn attention(&self, kind: AttentionKind, name: &str) -> Result<MultiheadAttention> {
        let weights = self.weights.child(name);
        let out = weights.child("out_proj");
        MultiheadAttention::named(kind, self.size, self.heads, PROJECTIONS, &weights, &out)
    }

    fn norm(&self, name: &str) -> Result<Residual> {
        Residual::new(&self.options, self.size, &self.weights.child(name))
    }

    fn feed_forward(&self) -> Result<FeedForward> {
        let linear = ["fc1", "fc2"].map(|name| self.weights.child(name));
        FeedForward::new(&self.options, self.size, linear.each_ref())
    }
}

fn options(config: &M2M100Config, inner: usize) -> TransformerOptions {
    TransformerOptions {
        dim_feedforward: inner,
        activation: config.activation_function,
        batch_first: true,
        norm_first: true,
        ..Default::default()
    }
}

/// An encoder layer: seven Commands.
pub fn encoder_layer(config: &M2M100Config, weights: &Weights) -> Result<TransformerEncoderLayer> {
    let options = options(config, config.encoder_ffn_dim);
    let (size, heads) = (config.d_model, config.encoder_attention_heads);
    let parts = LayerWeights { options, size, heads, weights };
    Ok(TransformerEncoderLayer::of(
        parts.attention(AttentionKind::SelfAttention, "self_attn")?,
        parts.feed_forward()?,
        [parts.norm("self_attn_layer_norm")?, parts.norm("final_layer_norm")?],
    ))
}

/// A decoder layer: twelve Commands per step, of which two store keys and attend to them.
pub fn decoder_layer(config: &M2M100Config, weights: &Weights) -> Result<TransformerDecoderLayer> {
    let options = options(config, config.decoder_ffn_dim);
    let (size, heads) = (config.d_model, config.decoder_attention_heads);
    let parts = LayerWeights { options, size, heads, weights };
    Ok(TransformerDecoderLayer::of(
        [
            parts.attention(AttentionKind::SelfAttention, "self_attn")?,
            parts.attention(AttentionKind::CrossAttention, "encoder_attn")?,
        ],
        parts.feed_forward()?,
        [
            parts.norm("self_attn_layer_norm")?,
            parts.norm("encoder_attn_layer_norm")?,
            parts.norm("final_layer_norm")?,
        ],
    ))
}

pub fn norm(size: usize, weights: &Weights) -> Result<LayerNorm> {
    LayerNorm::new(&[size], LayerNormOptions::default(), &weights.child("layer_norm"))
}

/// An encoder layer as Transformers' models print it.
pub struct ShownEncoder<'a>(pub &'a TransformerEncoderLayer);

impl fmt::Debug for ShownEncoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (attention, linears, [norm1, norm2]) = self.0.parts();
        let description = Description::new("M2M100EncoderLayer")
            .child("self_attn", &shown(attention))
            .child("self_attn_layer_norm", norm1);
        fed_forward(description, linears).child("final_layer_norm", norm2).write(f)
    }
}

/// A decoder layer as Transformers' models print it.
pub struct ShownDecoder<'a>(pub &'a TransformerDecoderLayer);

impl fmt::Debug for ShownDecoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([attention, cross], linears, [norm1, norm2, norm3]) = self.0.parts();
        let description = Description::new("M2M100DecoderLayer")
            .child("self_attn", &shown(attention))
            .child("self_attn_layer_norm", norm1)
            .child("encoder_attn", &shown(cross))
            .child("encoder_attn_layer_norm", norm2);
        fed_forward(description, linears).child("final_layer_norm", norm3).write(f)
    }
}

fn shown(attention: &MultiheadAttention) -> Description {
    let description = attention.describe_named("M2M100Attention", PROJECTIONS);
    description.child("out_proj", attention.out_proj())
}

fn fed_forward(description: Description, [fc1, fc2]: [&Linear; 2]) -> Description {
    description.child("fc1", fc1).child("fc2", fc2)
}

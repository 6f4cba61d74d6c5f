//! The layers of a BERT-type encoder, by the names of their weights.

use std::fmt;

use super::BertConfig;
use crate::layers::{AttentionKind, FeedForward, Residual};
use crate::{
    Description, MultiheadAttention, Result, TransformerEncoderLayer, TransformerOptions, Weights,
};

const PROJECTIONS: [&str; 3] = ["query", "key", "value"];

pub fn options(config: &BertConfig) -> TransformerOptions {
    TransformerOptions {
        dim_feedforward: config.intermediate_size,
        activation: config.hidden_act,
        layer_norm_eps: config.layer_norm_eps,
        batch_first: true,
        norm_first: false,
        bias: true,
    }
}

/// Attention and two linear layers, each followed by a residual sum and a norm: seven Commands.
pub fn layer(config: &BertConfig, weights: &Weights) -> Result<TransformerEncoderLayer> {
    let (size, heads, options) = (config.hidden_size, config.num_attention_heads, options(config));
    let attention = weights.child("attention.self");
    let [after_attention, after] = ["attention.output", "output"].map(|name| weights.child(name));
    let norm = |weights: &Weights| Residual::new(&options, size, &weights.child("LayerNorm"));
    let linear = [&weights.child("intermediate"), &after].map(|weights| weights.child("dense"));
    Ok(TransformerEncoderLayer::of(
        MultiheadAttention::named(
            AttentionKind::SelfAttention,
            size,
            heads,
            PROJECTIONS,
            &attention,
            &after_attention.child("dense"),
        )?,
        FeedForward::new(&options, size, linear.each_ref())?,
        [norm(&after_attention)?, norm(&after)?],
    ))
}

/// A layer as Transformers' models print it.
pub struct Shown<'a>(pub &'a TransformerEncoderLayer);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (attention, [inner, outer], [attention_norm, output_norm]) = self.0.parts();
        let behind = |kind, dense: &dyn fmt::Debug, norm: &dyn fmt::Debug| {
            Description::new(kind).child("dense", dense).child("LayerNorm", norm)
        };
        let itself = attention.describe_named("BertSelfAttention", PROJECTIONS);
        let attention = Description::new("BertAttention")
            .child("self", &itself)
            .child("output", &behind("BertSelfOutput", attention.out_proj(), attention_norm));
        Description::new("BertLayer")
            .child("attention", &attention)
            .child("intermediate", &Description::new("BertIntermediate").child("dense", inner))
            .child("output", &behind("BertOutput", outer, output_norm))
            .write(f)
    }
}

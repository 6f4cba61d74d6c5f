//! Attention and transformer layers.

use millstream_core::Activation;
use millstream_nn::{
    AttentionMask, MultiheadAttention, MultiheadAttentionOptions, TransformerDecoderLayer,
    TransformerEncoder, TransformerEncoderLayer, TransformerOptions,
};

use crate::fixture::{each, module};

const BATCH_FIRST: MultiheadAttentionOptions =
    MultiheadAttentionOptions { bias: true, batch_first: true, kdim: None, vdim: None };

fn options() -> TransformerOptions {
    TransformerOptions { dim_feedforward: 40, batch_first: true, ..Default::default() }
}

#[test]
fn self_attention() {
    for name in ["attention", "attention_unbatched"] {
        each(name, |fixture| {
            let new = |weights: &_| MultiheadAttention::new(24, 3, Default::default(), weights);
            let (layer, x) = (fixture.load(new)?, fixture.input(0));
            fixture.expect("output", &layer.forward(&x, &x, &x, &AttentionMask::none())?)
        });
    }
}

#[test]
fn masked_attention() {
    each("attention_masked", |fixture| {
        let layer = fixture.load(|weights| MultiheadAttention::new(24, 3, BATCH_FIRST, weights))?;
        let x = fixture.input(0);
        let mask = AttentionMask::new(&fixture.input(1))?.and_key_padding(&fixture.input(2))?;
        fixture.expect("output", &layer.forward(&x, &x, &x, &mask)?)?;
        let mask = AttentionMask::causal().and_key_padding(&fixture.input(2))?;
        fixture.expect("output", &layer.forward(&x, &x, &x, &mask)?)
    });
    each("attention_added", |fixture| {
        let options = MultiheadAttentionOptions { bias: false, ..BATCH_FIRST };
        let layer = fixture.load(|weights| MultiheadAttention::new(24, 2, options, weights))?;
        let (x, mask) = (fixture.input(0), AttentionMask::new(&fixture.input(1))?);
        fixture.expect("output", &layer.forward(&x, &x, &x, &mask)?)
    });
}

#[test]
fn cross_attention() {
    each("attention_cross", |fixture| {
        let layer = fixture.load(|weights| MultiheadAttention::new(24, 3, BATCH_FIRST, weights))?;
        let [q, k, v] = [0, 1, 2].map(|index| fixture.input(index));
        fixture.expect("output", &layer.forward(&q, &k, &v, &AttentionMask::none())?)
    });
}

#[test]
fn keys_and_values_of_other_sizes() {
    each("attention_sizes", |fixture| {
        let options =
            MultiheadAttentionOptions { kdim: Some(10), vdim: Some(14), ..Default::default() };
        let layer = fixture.load(|weights| MultiheadAttention::new(24, 3, options, weights))?;
        let [q, k, v] = [0, 1, 2].map(|index| fixture.input(index));
        assert!(layer.forward(&q, &q, &q, &AttentionMask::none()).is_err());
        fixture.expect("output", &layer.forward(&q, &k, &v, &AttentionMask::none())?)
    });
}

#[test]
fn encoder_layers() {
    let default = TransformerOptions { batch_first: false, ..options() };
    module("encoder", |weights| TransformerEncoderLayer::new(24, 3, default, weights));
    let no_bias = TransformerOptions { bias: false, ..options() };
    module("encoder_no_bias", |weights| TransformerEncoderLayer::new(24, 3, no_bias, weights));
    module("encoder_stack", |weights| TransformerEncoder::new(24, 3, 2, true, options(), weights));
    let norm_first =
        TransformerOptions { norm_first: true, activation: Activation::Gelu, ..options() };
    each("encoder_norm_first", |fixture| {
        let layer =
            fixture.load(|weights| TransformerEncoderLayer::new(24, 3, norm_first, weights))?;
        let output = layer.forward_masked(&fixture.input(0), &AttentionMask::causal())?;
        fixture.expect("output", &output)
    });
}

#[test]
fn decoder_layers() {
    let default = TransformerOptions { batch_first: false, ..options() };
    let norm_first =
        TransformerOptions { norm_first: true, activation: Activation::Gelu, ..options() };
    let none = AttentionMask::none;
    for (name, options, mask) in
        [("decoder", default, AttentionMask::causal()), ("decoder_norm_first", norm_first, none())]
    {
        each(name, |fixture| {
            let layer =
                fixture.load(|weights| TransformerDecoderLayer::new(24, 3, options, weights))?;
            let (x, memory) = (fixture.input(0), fixture.input(1));
            let output = layer.forward(&x, &memory, &mask, &none())?;
            fixture.expect("output", &output)
        });
    }
}

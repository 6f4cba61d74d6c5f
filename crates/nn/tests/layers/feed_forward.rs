//! Layers that look at one place at a time.

use millstream_nn::{
    BatchNorm, BatchNormOptions, ELU, Embedding, GELU, GroupNorm, GroupNormOptions, Hardsigmoid,
    Hardswish, LayerNorm, LayerNormOptions, LeakyReLU, Linear, LogSoftmax, Mish, Module, RMSNorm,
    RMSNormOptions, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softplus, Softsign, Tanh, Tensor,
};

use crate::fixture::{each, module};

#[test]
fn linear() {
    module("linear", |weights| Linear::new(20, 33, true, weights));
    module("linear_no_bias", |weights| Linear::new(20, 7, false, weights));
}

#[test]
fn norms() {
    module("layer_norm", |weights| LayerNorm::new(&[3, 20], Default::default(), weights));
    let options = LayerNormOptions { eps: 1e-3, bias: false, ..Default::default() };
    module("layer_norm_no_bias", |weights| LayerNorm::new(&[20], options, weights));
    module("rms_norm", |weights| RMSNorm::new(&[20], RMSNormOptions::default(), weights));
    module("group_norm", |weights| GroupNorm::new(3, 6, GroupNormOptions::default(), weights));
}

#[test]
fn batch_norm() {
    module("batch_norm1d", |weights| BatchNorm::new(6, Default::default(), weights));
    let options = BatchNormOptions { affine: false, ..Default::default() };
    module("batch_norm1d_long", |weights| BatchNorm::new(6, options, weights));
    module("batch_norm2d", |weights| BatchNorm::new(6, Default::default(), weights));
}

#[test]
fn embedding() {
    module("embedding", |weights| Embedding::new(11, 6, weights));
}

#[test]
fn activations() {
    let modules: [Box<dyn Module>; 17] = [
        Box::new(ReLU),
        Box::new(ReLU6),
        Box::new(SiLU),
        Box::new(Sigmoid),
        Box::new(Tanh),
        Box::new(Hardswish),
        Box::new(GELU { tanh: false }),
        Box::new(GELU { tanh: true }),
        Box::new(LeakyReLU::default()),
        Box::new(Hardsigmoid),
        Box::new(Mish),
        Box::new(SELU),
        Box::new(Softplus),
        Box::new(Softsign),
        Box::new(ELU::default()),
        Box::new(Softmax { dim: -1 }),
        Box::new(LogSoftmax { dim: -1 }),
    ];
    each("activations", |fixture| {
        let input = fixture.input(0);
        let outputs: Result<Vec<Tensor>, _> =
            modules.iter().map(|module| module.forward(&input)).collect();
        fixture.expect("output", &Tensor::stack(&outputs?, 0)?)
    });
}

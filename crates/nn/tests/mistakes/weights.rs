//! Weights that do not fit the model: names, shapes, types, and names at another place.

use std::collections::HashMap;

use millstream_core::DType;
use millstream_nn::*;

use super::{check, device, zeros, zeros_of};

fn weights<const N: usize>(tensors: [(&str, Tensor); N]) -> Weights {
    let tensors: HashMap<_, _> =
        tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
    Weights::from_tensors(tensors, &device())
}

fn linear(weights: &Weights) -> Result<Linear> {
    Linear::new(4, 2, true, &weights.child("encoder.fc"))
}

#[test]
fn types_are_checked_when_a_model_is_loaded() {
    let whole = weights([
        ("encoder.fc.weight", zeros_of(DType::I64, &[2, 4])),
        ("encoder.fc.bias", zeros(&[2])),
    ]);
    let mixed = weights([
        ("encoder.fc.weight", zeros(&[2, 4])),
        ("encoder.fc.bias", zeros_of(DType::F16, &[2])),
    ]);
    let norm = weights([("weight", zeros(&[4])), ("bias", zeros_of(DType::BF16, &[4]))]);
    check([
        (
            whole.load(linear).map(drop),
            "the weights do not fit the model:\n  encoder.fc.weight has elements of type i64, the layer needs a \
             floating-point type\n  encoder.fc.bias has elements of type f32, the layer needs i64, which \
             encoder.fc.weight has: Weights::to_dtype gives all weights one type",
        ),
        (
            mixed.load(linear).map(drop),
            "the weights do not fit the model:\n  encoder.fc.bias has elements of type f16, the layer needs f32, \
             which encoder.fc.weight has: Weights::to_dtype gives all weights one type",
        ),
        (
            linear(&mixed).map(drop),
            "the weights do not fit the model:\n  encoder.fc.bias has elements of type f16, the layer needs f32, \
             which encoder.fc.weight has: Weights::to_dtype gives all weights one type",
        ),
        (mixed.to_dtype(DType::F32).load(linear).map(drop), "no error"),
        (
            LayerNorm::new(&[4], Default::default(), &norm).map(drop),
            "the weights do not fit the model:\n  bias has elements of type bf16, the layer needs f32, which \
             weight has: Weights::to_dtype gives all weights one type",
        ),
    ]);
}

#[test]
fn a_prefix_too_many_or_too_few_is_named() {
    let [weight, bias] = [zeros(&[2, 4]), zeros(&[2])];
    let more = weights([
        ("model.encoder.fc.weight", weight.clone()),
        ("model.encoder.fc.bias", bias.clone()),
    ]);
    let less = weights([("fc.weight", weight.clone()), ("fc.bias", bias.clone())]);
    let part = weights([("model.encoder.fc.weight", weight)]);
    check([
        (
            more.load(linear).map(drop),
            "the weights do not fit the model:\n  all that is missing is there with \"model.\" before its name: \
             build the model from weights.child(\"model\")\n  encoder.fc.weight [2, 4] is missing\n  \
             encoder.fc.bias [2] is missing\n  model.encoder.fc.bias is not expected\n  \
             model.encoder.fc.weight is not expected",
        ),
        (more.child("model").load(linear).map(drop), "no error"),
        (
            less.load(linear).map(drop),
            "the weights do not fit the model:\n  all that is missing is there without \"encoder.\" before its \
             name: build the model from weights without child(\"encoder\")\n  encoder.fc.weight [2, 4] is \
             missing\n  encoder.fc.bias [2] is missing\n  fc.bias is not expected\n  fc.weight is not expected",
        ),
        (
            part.load(linear).map(drop),
            "the weights do not fit the model:\n  encoder.fc.weight [2, 4] is missing\n  encoder.fc.bias [2] is \
             missing\n  model.encoder.fc.weight is not expected",
        ),
    ]);
}

#[test]
fn shapes_are_compared() {
    let swapped =
        weights([("encoder.fc.weight", zeros(&[4, 2])), ("encoder.fc.bias", zeros(&[2]))]);
    check([(
        swapped.load(linear).map(drop),
        "the weights do not fit the model:\n  encoder.fc.weight has shape [4, 2], the model needs [2, 4]",
    )]);
}

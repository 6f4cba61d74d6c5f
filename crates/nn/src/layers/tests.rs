//! Every Command is recorded under the path of the layer it belongs to.

use millstream_core::{DType, Device, LayerName};

use super::*;
use crate::models::bert::{Bert, BertConfig};
use crate::tensor::layers;
use crate::{Tensor, Weights};

fn device() -> Device {
    Device::cpu().unwrap()
}

fn weights() -> Weights {
    Weights::random(1, DType::F32, &device()).child("model.0")
}

fn input(shape: &[usize]) -> Tensor {
    Tensor::ones(shape, DType::F32, &device()).unwrap()
}

/// The layers of a module's Commands.
fn names(module: &dyn Module, input: &Tensor) -> Vec<&'static str> {
    let names = layers::of(|| drop(module.forward(input).unwrap()));
    assert_eq!(LayerName::current(), None);
    names
}

#[test]
fn layers_record_under_the_path_of_their_weights() {
    let (images, vectors, w) = (input(&[1, 2, 4, 4]), input(&[3, 2]), weights());
    let ids = Tensor::new(&[0i64, 1], &device()).unwrap();
    let modules: [(Box<dyn Module>, &Tensor); 9] = [
        (Box::new(Linear::new(2, 2, true, &w).unwrap()), &vectors),
        (Box::new(Embedding::new(2, 2, &w).unwrap()), &ids),
        (Box::new(LayerNorm::new(&[2], Default::default(), &w).unwrap()), &vectors),
        (Box::new(RMSNorm::new(&[2], Default::default(), &w).unwrap()), &vectors),
        (Box::new(GroupNorm::new(1, 2, Default::default(), &w).unwrap()), &images),
        (Box::new(BatchNorm::new(2, Default::default(), &w).unwrap()), &images),
        (Box::new(Conv2d::new(2, 2, [2, 2], Default::default(), &w).unwrap()), &images),
        (Box::new(ConvTranspose2d::new(2, 2, [2, 2], Default::default(), &w).unwrap()), &images),
        (Box::new(LSTM::new(2, 2, Default::default(), &w).unwrap()), &vectors),
    ];
    for (module, input) in modules {
        let names = names(&*module, input);
        assert!(!names.is_empty() && names.iter().all(|&name| name == "model.0"), "{names:?}");
    }
    let root = Weights::random(1, DType::F32, &device());
    let linear = Linear::new(2, 2, true, &root).unwrap();
    assert_eq!(names(&linear, &vectors), ["Linear"]);
    assert_eq!(layers::of(|| drop(vectors.exp().unwrap())), [""]);
}

#[test]
fn the_innermost_layer_names_a_command() {
    let options = TransformerOptions { dim_feedforward: 4, ..Default::default() };
    let encoder = TransformerEncoder::new(2, 1, 1, true, options, &weights()).unwrap();
    let expected = [
        "model.0.layers.0.self_attn",
        "model.0.layers.0.self_attn",
        "model.0.layers.0.self_attn.out_proj",
        "model.0.layers.0.norm1",
        "model.0.layers.0.linear1",
        "model.0.layers.0.linear2",
        "model.0.layers.0.norm2",
        "model.0.norm",
    ];
    assert_eq!(names(&encoder, &input(&[3, 1, 2])), expected);
}

#[test]
fn commands_of_a_model_have_the_names_of_its_file() {
    let config = BertConfig {
        vocab_size: 4,
        hidden_size: 2,
        num_hidden_layers: 1,
        num_attention_heads: 1,
        intermediate_size: 4,
        hidden_act: millstream_core::Activation::Gelu,
        max_position_embeddings: 4,
        type_vocab_size: 2,
        layer_norm_eps: 1e-12,
    };
    let bert = Bert::new(config, &Weights::random(1, DType::F32, &device())).unwrap();
    let ids = Tensor::from_slice(&[1i64, 2], &[1, 2], &device()).unwrap();
    let expected = [
        "embeddings.word_embeddings",
        "embeddings",
        "embeddings.LayerNorm",
        "encoder.layer.0.attention.self",
        "encoder.layer.0.attention.self",
        "encoder.layer.0.attention.output.dense",
        "encoder.layer.0.attention.output.LayerNorm",
        "encoder.layer.0.intermediate.dense",
        "encoder.layer.0.output.dense",
        "encoder.layer.0.output.LayerNorm",
    ];
    assert_eq!(layers::of(|| drop(bert.forward(&ids, None, None).unwrap())), expected);
}

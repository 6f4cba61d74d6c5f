//! A small random encoder: what needs no weights from elsewhere.

use millstream_core::{Activation, DType, Device};

use super::{Bert, BertConfig};
use crate::{Tensor, Weights};

fn bert(device: &Device) -> Bert {
    let config = BertConfig {
        vocab_size: 50,
        hidden_size: 24,
        num_hidden_layers: 2,
        num_attention_heads: 3,
        intermediate_size: 40,
        hidden_act: Activation::Gelu,
        max_position_embeddings: 12,
        type_vocab_size: 2,
        layer_norm_eps: 1e-12,
    };
    let weights = Weights::random(3, DType::F32, device);
    weights.load(|weights| Bert::new(config, weights)).unwrap()
}

fn ids(values: &[i64], shape: &[usize], device: &Device) -> Tensor {
    Tensor::from_slice(values, shape, device).unwrap()
}

fn difference(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).fold(0.0, |most, (a, b)| f32::max(most, (a - b).abs()))
}

#[test]
fn types_are_the_first_unless_given() {
    let device = Device::cpu().unwrap();
    let bert = bert(&device);
    let tokens = ids(&[4, 30, 7, 49], &[1, 4], &device);
    let forward = |types: Option<&[i64]>| {
        let types = types.map(|types| ids(types, &[1, 4], &device));
        bert.forward(&tokens, None, types.as_ref()).unwrap().to_vec::<f32>().unwrap()
    };
    assert!(difference(&forward(None), &forward(Some(&[0, 0, 0, 0]))) < 1e-5);
    assert!(difference(&forward(None), &forward(Some(&[0, 0, 1, 1]))) > 1e-3);
}

#[test]
fn padding_changes_no_bit() {
    let device = Device::cpu().unwrap();
    let bert = bert(&device);
    let alone = bert.forward(&ids(&[4, 30, 7], &[1, 3], &device), None, None).unwrap();
    let padded = ids(&[4, 30, 7, 0, 0, 9, 9, 9, 9, 9], &[2, 5], &device);
    let seen = [true, true, true, false, false, true, true, true, true, true];
    let seen = Tensor::from_slice(&seen, &[2, 5], &device).unwrap();
    let batch = bert.forward(&padded, Some(&seen), None).unwrap();
    let bits = |tensor: Tensor| -> Vec<u32> {
        tensor.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
    };
    assert_eq!(bits(batch.narrow(0, 0, 1).unwrap().narrow(1, 0, 3).unwrap()), bits(alone));
}

#[test]
fn a_layer_is_seven_commands() {
    let device = Device::builder("cpu").open().unwrap();
    let bert = bert(&device);
    let tokens = ids(&[1, 2, 3, 4], &[2, 2], &device);
    let before = device.counters().commands;
    bert.forward(&tokens, None, None).unwrap();
    // Beside the layers: words, positions with types, norm.
    assert_eq!(device.counters().commands - before, 2 * 7 + 3);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let device = Device::cpu().unwrap();
    let bert = bert(&device);
    let tokens = ids(&[1, 2, 3, 4], &[2, 2], &device);
    let other = ids(&[1, 2], &[1, 2], &device);
    assert!(bert.forward(&ids(&[1], &[1], &device), None, None).is_err());
    assert!(bert.forward(&ids(&[0; 13], &[1, 13], &device), None, None).is_err());
    assert!(bert.forward(&tokens, Some(&other), None).is_err());
    assert!(bert.forward(&tokens, None, Some(&other)).is_err());
    // What only the device can see is reported by the call that waits, and harms nobody else.
    let unknown = bert.forward(&ids(&[1, 50], &[1, 2], &device), None, None).unwrap();
    assert!(unknown.to_vec::<f32>().is_err());
    assert!(bert.forward(&tokens, None, None).unwrap().to_vec::<f32>().is_ok());
}

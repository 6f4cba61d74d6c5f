//! A small random encoder: what needs no weights from elsewhere.

use millstream_core::{Activation, DType, Device, OpKind};
use serde_json::json;

use super::{Bert, BertConfig, SentenceEncoder};
use crate::models::tokenizer::WordPiece;
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

/// A sentence encoder that knows the words a and b.
fn sentences(device: &Device) -> SentenceEncoder {
    let tokenizer = json!({
        "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {
            "[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "b": 5,
        }},
    });
    let name = format!("millstream-sentences-{:?}.json", std::thread::current().id());
    let path = std::env::temp_dir().join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, tokenizer.to_string()).unwrap();
    let tokenizer = WordPiece::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    SentenceEncoder::of(bert(device), tokenizer, 6)
}

#[test]
fn sentences_beyond_a_batch_go_in_further_batches() {
    let device = Device::builder("cpu").open().unwrap();
    let encoder = sentences(&device);
    let texts: Vec<&str> = (0..65).map(|index| ["a", "a b b", "b a"][index % 3]).collect();
    let alone: Vec<Vec<f32>> =
        ["a", "a b b", "b a"].map(|text| encoder.encode(&[text]).unwrap().to_vec().unwrap()).into();
    let mut products = Vec::new();
    for count in [1, 32, 33, 64, 65] {
        device.profiler().start();
        let vectors = encoder.encode(&texts[..count]).unwrap().to_vec::<f32>().unwrap();
        device.profiler().stop();
        for (index, vector) in vectors.chunks(24).enumerate() {
            assert!(difference(vector, &alone[index % 3]) < 1e-5);
        }
        let traces = device.profiler().take();
        let spans = traces.iter().flat_map(|trace| &trace.spans);
        products.push(spans.filter(|span| span.kind == OpKind::Attention).count());
    }
    assert_eq!(products, [2, 2, 4, 4, 6], "two layers, and a batch more from 33 and 65 on");
}

#[test]
fn a_sentence_is_cut_to_the_most_tokens() {
    let encoder = sentences(&Device::cpu().unwrap());
    assert_eq!(encoder.tokens("a b a b a b a b").len(), encoder.max_tokens());
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

#[test]
fn the_encoder_prints_as_transformers_prints_it() {
    let expected = "\
BertModel(
  (embeddings): BertEmbeddings(
    (word_embeddings): Embedding(50, 24)
    (position_embeddings): Embedding(12, 24)
    (token_type_embeddings): Embedding(2, 24)
    (LayerNorm): LayerNorm((24,), eps=1e-12, elementwise_affine=True)
  )
  (encoder): BertEncoder(
    (layer): ModuleList(
      (0-1): 2 x BertLayer(
        (attention): BertAttention(
          (self): BertSelfAttention(
            (query): Linear(in_features=24, out_features=24, bias=True)
            (key): Linear(in_features=24, out_features=24, bias=True)
            (value): Linear(in_features=24, out_features=24, bias=True)
          )
          (output): BertSelfOutput(
            (dense): Linear(in_features=24, out_features=24, bias=True)
            (LayerNorm): LayerNorm((24,), eps=1e-12, elementwise_affine=True)
          )
        )
        (intermediate): BertIntermediate(
          (dense): Linear(in_features=24, out_features=40, bias=True)
        )
        (output): BertOutput(
          (dense): Linear(in_features=40, out_features=24, bias=True)
          (LayerNorm): LayerNorm((24,), eps=1e-12, elementwise_affine=True)
        )
      )
    )
  )
)";
    assert_eq!(format!("{:?}", bert(&Device::cpu().unwrap())), expected);
    let text = format!("{:?}", sentences(&Device::cpu().unwrap()));
    let inner = expected.replace('\n', "\n  ");
    assert!(
        text.starts_with(&format!("SentenceTransformer(\n  (0): {inner}\n  (1): Pooling(")),
        "{text}"
    );
}

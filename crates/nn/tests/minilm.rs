//! A real sentence encoder beside Transformers. It runs where the model is: `MILLSTREAM_MINILM` is its
//! folder, which `fixtures/minilm.py --fetch` prints.

use std::path::Path;
use std::thread;

use millstream_core::{DType, Device};
use millstream_cpu as _;
use millstream_nn::models::bert::SentenceEncoder;
use millstream_nn::{Init, Result, Tensor, Weights};

const THREADS: usize = 16;
const SIZE: usize = 384;
const TOLERANCE: f32 = 1e-4;

struct Expected {
    sentences: Vec<String>,
    tokens: Vec<Vec<u32>>,
    embeddings: Vec<f32>,
}

fn expected(device: &Device) -> Expected {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/minilm");
    let text = std::fs::read_to_string(folder.join("sentences.json")).unwrap();
    let file = Weights::open(folder.join("expected.safetensors"), device).unwrap();
    let tensor = |name| file.get(name, &file.shape_of(name).unwrap(), Init::Zeros).unwrap();
    let ids = tensor("ids").to_vec::<i32>().unwrap();
    let mut rest = ids.iter().map(|&id| id as u32);
    let lengths = tensor("lengths").to_vec::<i32>().unwrap();
    Expected {
        sentences: serde_json::from_str(&text).unwrap(),
        tokens: lengths
            .iter()
            .map(|&length| rest.by_ref().take(length as usize).collect())
            .collect(),
        embeddings: tensor("embeddings").to_vec().unwrap(),
    }
}

/// The encoder and what to expect of it, or a message where there is no model.
fn open(device: &Device) -> Option<(SentenceEncoder, Expected)> {
    let Ok(folder) = std::env::var("MILLSTREAM_MINILM") else {
        eprintln!(
            "skipped: MILLSTREAM_MINILM is not set; crates/nn/fixtures/minilm.py --fetch gets the model"
        );
        return None;
    };
    Some((SentenceEncoder::open(folder, device).unwrap(), expected(device)))
}

fn values(tensor: Result<Tensor>) -> Vec<f32> {
    tensor.unwrap().to_vec().unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn largest_difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found
        .iter()
        .zip(expected)
        .fold(0.0, |most, (a, b)| if (a - b).abs() <= most { most } else { (a - b).abs() })
}

#[test]
fn tokens_are_those_of_transformers() {
    let Some((encoder, expected)) = open(&Device::cpu().unwrap()) else { return };
    assert_eq!(encoder.max_tokens(), 256);
    for (sentence, tokens) in expected.sentences.iter().zip(&expected.tokens) {
        assert_eq!(encoder.tokens(sentence), *tokens, "{sentence:?}");
    }
}

#[test]
fn embeddings_are_those_of_transformers_from_sixteen_threads() {
    let Some((encoder, expected)) = open(&Device::cpu().unwrap()) else { return };
    let sentences = &expected.sentences;
    let alone: Vec<Vec<f32>> =
        sentences.iter().map(|sentence| values(encoder.encode(&[sentence]))).collect();
    let difference = largest_difference(&alone.concat(), &expected.embeddings);
    println!("largest difference to Transformers: {difference:e}");
    assert!(difference <= TOLERANCE);
    thread::scope(|scope| {
        for first in 0..THREADS {
            let (encoder, alone) = (&encoder, &alone);
            scope.spawn(move || {
                for index in (first..sentences.len()).step_by(THREADS) {
                    let found = values(encoder.encode(&[&sentences[index]]));
                    assert_eq!(bits(&found), bits(&alone[index]), "{:?}", sentences[index]);
                }
            });
        }
    });
}

#[test]
fn batches_with_padding_give_what_single_sentences_give() {
    let Some((encoder, expected)) = open(&Device::cpu().unwrap()) else { return };
    let all = values(encoder.encode(&expected.sentences));
    let difference = largest_difference(&all, &expected.embeddings);
    println!("largest difference to Transformers in batches: {difference:e}");
    assert!(difference <= TOLERANCE);
    for (index, sentence) in expected.sentences.iter().enumerate().step_by(7) {
        let alone = values(encoder.encode(&[sentence]));
        let apart = largest_difference(&all[index * SIZE..][..SIZE], &alone);
        assert!(apart <= 1e-6, "{sentence:?}: {apart}");
    }
    assert_eq!(encoder.encode::<&str>(&[]).unwrap().shape(), [0, SIZE]);
}

#[test]
fn a_layer_is_seven_commands() {
    let device = Device::builder("cpu").open().unwrap();
    let Some((encoder, _)) = open(&device) else { return };
    let ids = Tensor::zeros(&[2, 5], DType::I64, &device).unwrap();
    let before = device.counters().commands;
    encoder.bert().forward(&ids, None, None).unwrap();
    // Beside the layers: words, positions and types, norm.
    assert_eq!(device.counters().commands - before, 6 * 7 + 3);
}

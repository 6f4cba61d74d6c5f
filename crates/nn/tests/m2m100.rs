//! A small translation model beside Transformers; `fixtures/m2m100.py` made it.

use std::path::{Path, PathBuf};
use std::thread;

use millstream_core::Device;
use millstream_cpu as _;
use millstream_nn::models::m2m100::{EarlyStopping, GenerationOptions, M2M100};
use millstream_nn::{Init, Weights};
use serde_json::Value;

const THREADS: usize = 16;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/m2m100")
}

fn model() -> M2M100 {
    M2M100::open(folder(), &Device::cpu().unwrap()).unwrap()
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder().join("expected.json")).unwrap()).unwrap()
}

fn rows(value: &Value) -> Vec<Vec<u32>> {
    serde_json::from_value(value.clone()).unwrap()
}

/// The options of a case, by the names that Transformers has for them.
fn options(model: &M2M100, given: &Value) -> GenerationOptions {
    let mut options = model.generation_options().clone();
    for (key, value) in given.as_object().unwrap() {
        let number = || value.as_u64().unwrap();
        match key.as_str() {
            "num_beams" => options.num_beams = number() as usize,
            "max_length" => options.max_length = number() as usize,
            "length_penalty" => options.length_penalty = value.as_f64().unwrap(),
            "forced_bos_token_id" => options.forced_bos_token_id = Some(number() as u32),
            "forced_eos_token_id" => options.forced_eos_token_id = Some(number() as u32),
            "eos_token_id" => {
                options.eos_token_ids = serde_json::from_value(value.clone()).unwrap();
            }
            "early_stopping" if value == "never" => {
                options.early_stopping = EarlyStopping::WhenImpossibleToImprove;
            }
            "early_stopping" => options.early_stopping = EarlyStopping::WhenFull,
            other => panic!("{other}"),
        }
    }
    options
}

#[test]
fn logits_are_those_of_transformers() {
    let (model, expected) = (model(), expected());
    let (inputs, targets) = (rows(&expected["inputs"]), rows(&expected["targets"]));
    let file =
        Weights::open(folder().join("expected.safetensors"), &Device::cpu().unwrap()).unwrap();
    let shape = file.shape_of("logits").unwrap();
    let wanted = file.get("logits", &shape, Init::Zeros).unwrap().to_vec::<f32>().unwrap();
    let found = model.logits(&inputs, &targets).unwrap();
    assert_eq!(found.shape(), shape);
    let found = found.to_vec::<f32>().unwrap();
    let mut largest = 0f32;
    for (row, target) in targets.iter().enumerate() {
        let start = row * shape[1] * shape[2];
        for place in start..start + target.len() * shape[2] {
            largest = largest.max((found[place] - wanted[place]).abs());
        }
    }
    println!("largest difference to Transformers: {largest:e}");
    assert!(largest <= 1e-4);
}

#[test]
fn outputs_are_those_of_transformers() {
    let (model, expected) = (model(), expected());
    let inputs = rows(&expected["inputs"]);
    for case in expected["cases"].as_array().unwrap() {
        let options = options(&model, &case["options"]);
        let found = model.generate(&inputs, &options).unwrap();
        assert_eq!(found, rows(&case["outputs"]), "{}", case["options"]);
    }
}

#[test]
fn inputs_alone_give_what_they_give_in_a_batch() {
    let (model, expected) = (model(), expected());
    for case in expected["cases"].as_array().unwrap() {
        let options = options(&model, &case["options"]);
        for (input, output) in rows(&expected["inputs"]).iter().zip(rows(&case["outputs"])) {
            assert_eq!(model.generate(&[input], &options).unwrap(), [output]);
        }
    }
}

#[test]
fn sixteen_threads_get_what_one_gets() {
    let (model, expected) = (model(), expected());
    let (inputs, targets) = (rows(&expected["inputs"]), rows(&expected["targets"]));
    let bits = |index: usize| -> Vec<u32> {
        let row = index % inputs.len();
        let logits = model.logits(&inputs[row..=row], &targets[row..=row]).unwrap();
        logits.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
    };
    let cases = expected["cases"].as_array().unwrap();
    let alone: Vec<_> = (0..THREADS).map(bits).collect();
    thread::scope(|scope| {
        for index in 0..THREADS {
            let (model, inputs, alone, bits) = (&model, &inputs, &alone, &bits);
            scope.spawn(move || {
                let case = &cases[index % cases.len()];
                let options = options(model, &case["options"]);
                let found = model.generate(inputs, &options).unwrap();
                assert_eq!(found, rows(&case["outputs"]), "{}", case["options"]);
                assert_eq!(bits(index), alone[index]);
            });
        }
    });
}

#[test]
fn what_the_model_cannot_do_is_an_error() {
    let model = model();
    let good = model.generation_options();
    let refused = |inputs: &[Vec<u32>], options: &GenerationOptions| {
        model.generate(inputs, options).unwrap_err().to_string()
    };
    assert!(refused(&[vec![]], good).contains("no tokens"));
    assert!(refused(&[vec![1, 1]], good).contains("no tokens"));
    assert!(refused(&[vec![5, 100]], good).contains("token 100"));
    assert!(refused(&[vec![5; 65]], good).contains("65 tokens"));
    let with = |change: fn(&mut GenerationOptions)| {
        let mut options = good.clone();
        change(&mut options);
        refused(&[vec![5, 2]], &options)
    };
    assert!(with(|options| options.max_length = 1).contains("max_length"));
    assert!(with(|options| options.max_length = 65).contains("max_length"));
    assert!(with(|options| options.num_beams = 0).contains("beams"));
    assert!(with(|options| options.num_beams = 65).contains("beams"));
    assert!(with(|options| options.length_penalty = f64::NAN).contains("length_penalty"));
    assert!(with(|options| options.forced_bos_token_id = Some(100)).contains("token 100"));
    assert!(model.generate::<Vec<u32>>(&[], good).unwrap().is_empty());
    assert!(model.logits(&[[5u32, 2]], &[[2u32], [2]]).is_err());
}

#[test]
fn the_model_prints_as_transformers_prints_it() {
    let expected = "\
M2M100ForConditionalGeneration(
  (model): M2M100Model(
    (shared): M2M100ScaledWordEmbedding(100, 32, padding_idx=1)
    (encoder): M2M100Encoder(
      (embed_positions): M2M100SinusoidalPositionalEmbedding()
      (layers): ModuleList(
        (0-1): 2 x M2M100EncoderLayer(
          (self_attn): M2M100Attention(
            (q_proj): Linear(in_features=32, out_features=32, bias=True)
            (k_proj): Linear(in_features=32, out_features=32, bias=True)
            (v_proj): Linear(in_features=32, out_features=32, bias=True)
            (out_proj): Linear(in_features=32, out_features=32, bias=True)
          )
          (self_attn_layer_norm): LayerNorm((32,), eps=1e-05, elementwise_affine=True)
          (fc1): Linear(in_features=32, out_features=48, bias=True)
          (fc2): Linear(in_features=48, out_features=32, bias=True)
          (final_layer_norm): LayerNorm((32,), eps=1e-05, elementwise_affine=True)
        )
      )
      (layer_norm): LayerNorm((32,), eps=1e-05, elementwise_affine=True)
    )
    (decoder): M2M100Decoder(
      (embed_positions): M2M100SinusoidalPositionalEmbedding()
      (layers): ModuleList(
        (0-1): 2 x M2M100DecoderLayer(
          (self_attn): M2M100Attention(
            (q_proj): Linear(in_features=32, out_features=32, bias=True)
            (k_proj): Linear(in_features=32, out_features=32, bias=True)
            (v_proj): Linear(in_features=32, out_features=32, bias=True)
            (out_proj): Linear(in_features=32, out_features=32, bias=True)
          )
          (self_attn_layer_norm): LayerNorm((32,), eps=1e-05, elementwise_affine=True)
          (encoder_attn): M2M100Attention(
            (q_proj): Linear(in_features=32, out_features=32, bias=True)
            (k_proj): Linear(in_features=32, out_features=32, bias=True)
            (v_proj): Linear(in_features=32, out_features=32, bias=True)
            (out_proj): Linear(in_features=32, out_features=32, bias=True)
          )
          (encoder_attn_layer_norm): LayerNorm((32,), eps=1e-05, elementwise_affine=True)
          (fc1): Linear(in_features=32, out_features=40, bias=True)
          (fc2): Linear(in_features=40, out_features=32, bias=True)
          (final_layer_norm): LayerNorm((32,), eps=1e-05, elementwise_affine=True)
        )
      )
      (layer_norm): LayerNorm((32,), eps=1e-05, elementwise_affine=True)
    )
  )
  (lm_head): Linear(in_features=32, out_features=100, bias=False)
)";
    assert_eq!(format!("{:?}", model()), expected);
}

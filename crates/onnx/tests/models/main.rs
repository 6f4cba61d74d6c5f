//! Real models beside onnxruntime. They run where the references are: `MILLSTREAM_ONNX_MODELS` is their folder, which
//! `tests/models/references.py` makes and prints.

#[path = "../shared/case.rs"]
mod case;
#[path = "../shared/compare.rs"]
mod compare;

use std::path::PathBuf;
use std::time::Duration;

use millstream_core::Device;
use millstream_cpu as _;
use millstream_graph::{Array, ModelValue, Passes};

use case::Case;
use compare::Tolerance;

/// Threads that call a model at once.
const THREADS: usize = 31;

/// How much a model may differ from onnxruntime.
fn tolerance(model: &str) -> Tolerance {
    match model {
        // Sounds are sums of many waves, whose parts cancel: single samples have no relative accuracy.
        "piper" => Tolerance::RootMeanSquare(1e-4),
        // Any rounding can move an 8-bit number within it, and noise of 1e-6 on the input moves the answer by 1e-3.
        "smart-turn" => Tolerance::Each { absolute: 3e-3, relative: 3e-3, relative_bf16: 0.0 },
        // Any rounding can move an 8-bit number within it, so the whole is compared as sounds: the strengths of 64 bands. Noise of
        // 1e-7 to 1e-5 on the voice moves onnxruntime's own by up to 11.6 % (mel-cepstral distance up to 4.8 dB), and the
        // distance to it was 11 and 14 % (3.4 and 5.1 dB). `tests/models/kokoro.py` says what else had to be the same.
        "kokoro" => Tolerance::Spectrum(0.2),
        // The same model, where every part between two roundings to 8 bits gets onnxruntime's numbers.
        "kokoro-nodes" => Tolerance::OfLargest { absolute: 1e-5, relative: 1e-4 },
        _ => Tolerance::Each { absolute: 1e-5, relative: 1e-4, relative_bf16: 0.0 },
    }
}

/// A device on which a call may wait for all others: some models take a second of one core.
fn device() -> Device {
    Device::builder("cpu").wait_timeout(Duration::from_secs(600)).open().unwrap()
}

fn models() -> Vec<Case> {
    let Ok(folder) = std::env::var("MILLSTREAM_ONNX_MODELS") else {
        eprintln!(
            "skipped: MILLSTREAM_ONNX_MODELS is not set; crates/onnx/tests/models/references.py gets the models, \
             computes references and prints their folder"
        );
        return Vec::new();
    };
    let only = std::env::var("MILLSTREAM_ONNX_MODELS_ONLY").ok();
    let models = case::find(&PathBuf::from(&folder), only.as_deref());
    assert!(!models.is_empty(), "{folder} has no models");
    models
}

fn agree(passes: &Passes, skipped: &[&str]) {
    let device = device();
    let mut failed = Vec::new();
    for model in models().into_iter().filter(|model| !skipped.contains(&&model.name[..])) {
        match model.run(&device, passes, tolerance(&model.name)) {
            Ok(()) => println!("{} agrees", model.name),
            Err(reason) => failed.push(format!("{}: {reason}", model.name)),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn models_agree_with_onnxruntime() {
    agree(&Passes::all(), &[]);
}

#[test]
fn models_agree_with_onnxruntime_without_passes() {
    // Without passes each operation is rounded by itself, and the sound of Kokoro as a whole is off by 28 % then. Its parts agree.
    agree(&Passes::none(), &["kokoro"]);
}

fn bytes(values: &[ModelValue]) -> Vec<Array> {
    let array = |value: &ModelValue| match value {
        ModelValue::Tensor(tensor) => Array::of_tensor(tensor).unwrap(),
        other => panic!("{other:?} is no tensor"),
    };
    values.iter().map(array).collect()
}

#[test]
fn models_have_the_same_bits_from_many_threads_with_mixed_shapes() {
    let device = device();
    for model in models() {
        let session = model.open(&device, &Passes::all()).unwrap();
        let data = model.data(&session, &device).unwrap();
        let alone: Vec<Vec<Array>> =
            data.iter().map(|(given, _)| bytes(&session.run(given.clone()).unwrap())).collect();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (session, data, alone, name) = (&session, &data, &alone, &model.name);
                scope.spawn(move || {
                    for step in 0..data.len() {
                        let at = (thread + step) % data.len();
                        let found = bytes(&session.run(data[at].0.clone()).unwrap());
                        for (found, alone) in found.iter().zip(&alone[at]) {
                            assert_eq!(found.spec(), alone.spec(), "{name}");
                            assert!(
                                found.bytes() == alone.bytes(),
                                "{name}: other bits in a crowd"
                            );
                        }
                    }
                });
            }
        });
    }
}

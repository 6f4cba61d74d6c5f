//! `millstream inspect`: what a model, a weights file or a model folder holds.

mod drawing;
mod model;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use millstream::nn::{TensorInfo, inspect};
use millstream::{Error, Result};
use serde_json::{Value, json};

use crate::choice::{DeviceChoice, is_model_file};
use crate::{model_inputs, table};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// An `.onnx` model, a `.safetensors` file, the index of weights in several files, or a folder with one of these.
    path: PathBuf,
    /// Of a weights file, only tensors whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Write the graph of a model in Graphviz's language.
    #[arg(long, value_name = "FILE.dot")]
    dot: Option<PathBuf>,
    /// Draw the graph of a model.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// The contents of an input, as for `run`. With inputs or shapes a model is called, and what its nodes cost is shown.
    #[arg(long, value_name = "NAME=FILE.npy")]
    input: Vec<String>,
    #[command(flatten)]
    inputs: model_inputs::Arguments,
    #[command(flatten)]
    device: DeviceChoice,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

/// What of `config.json` says how large a model is.
const SETTINGS: [&str; 10] = [
    "model_type",
    "hidden_size",
    "d_model",
    "num_hidden_layers",
    "encoder_layers",
    "decoder_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
];

/// A `config.json` is small; what is larger is no settings.
const LONGEST_CONFIG: u64 = 1 << 20;

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if is_model_file(&arguments.path) {
        return model::run(arguments);
    }
    if arguments.dot.is_some() || arguments.svg.is_some() {
        let reason =
            format!("{} is no model file: only those have a graph", arguments.path.display());
        return Err(Error::Invalid { op: "inspect", reason });
    }
    let mut tensors = inspect(&arguments.path)?;
    let only =
        |tensor: &TensorInfo| arguments.only.as_ref().is_none_or(|part| tensor.name.contains(part));
    tensors.retain(only);
    let config = config(&arguments.path)?;
    let totals = totals(&tensors);
    if arguments.json {
        println!("{}", as_json(&tensors, &totals, config.as_ref()));
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<_> = tensors
        .iter()
        .map(|tensor| {
            let shape = format!("{:?}", tensor.shape);
            vec![tensor.name.clone(), tensor.dtype.clone(), shape, size(tensor.bytes)]
        })
        .collect();
    table::print(&["tensor", "type", "shape", "size"], &rows);
    println!();
    for (dtype, total) in &totals {
        println!("{dtype}: {}", total.words());
    }
    if totals.len() != 1 {
        println!("all: {}", totals.values().copied().fold(Total::default(), Total::plus).words());
    }
    for (name, value) in config.iter().flat_map(|config| config.iter()) {
        println!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    Ok(ExitCode::SUCCESS)
}

/// What tensors of one type come to.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Total {
    tensors: usize,
    elements: usize,
    bytes: usize,
}

impl Total {
    fn plus(self, other: Total) -> Total {
        Total {
            tensors: self.tensors + other.tensors,
            elements: self.elements + other.elements,
            bytes: self.bytes + other.bytes,
        }
    }

    fn words(self) -> String {
        let Total { tensors, elements, bytes } = self;
        format!("{tensors} tensors, {elements} elements, {}", size(bytes))
    }

    fn json(self) -> Value {
        json!({ "tensors": self.tensors, "elements": self.elements, "bytes": self.bytes })
    }
}

fn totals(tensors: &[TensorInfo]) -> BTreeMap<String, Total> {
    let mut totals = BTreeMap::<String, Total>::new();
    for tensor in tensors {
        // The product of the others may be too large.
        let elements = if tensor.bytes == 0 { 0 } else { tensor.shape.iter().product() };
        let total = totals.entry(tensor.dtype.clone()).or_default();
        *total = total.plus(Total { tensors: 1, elements, bytes: tensor.bytes });
    }
    totals
}

/// The settings of a model, where a folder has some.
fn config(path: &Path) -> Result<Option<BTreeMap<&'static str, Value>>> {
    let file = path.join("config.json");
    if !path.is_dir() || !file.exists() {
        return Ok(None);
    }
    let read = |error| Error::read(&file, error);
    let length = std::fs::metadata(&file).map_err(read)?.len();
    let wrong = |reason| Error::Format { path: file.display().to_string(), reason };
    if length > LONGEST_CONFIG {
        return Err(wrong(format!("it has {length} bytes, above {LONGEST_CONFIG}")));
    }
    let text = std::fs::read(&file).map_err(read)?;
    let all: Value = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let known = SETTINGS.into_iter().filter_map(|name| Some((name, all.get(name)?.clone())));
    Ok(Some(known.collect()))
}

fn as_json(
    tensors: &[TensorInfo],
    totals: &BTreeMap<String, Total>,
    config: Option<&BTreeMap<&'static str, Value>>,
) -> Value {
    let tensor = |tensor: &TensorInfo| {
        json!({
            "name": tensor.name,
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "bytes": tensor.bytes,
        })
    };
    let all = totals.values().copied().fold(Total::default(), Total::plus);
    json!({
        "tensors": tensors.iter().map(tensor).collect::<Vec<_>>(),
        "dtypes": totals.iter().map(|(dtype, total)| (dtype.clone(), total.json())).collect::<serde_json::Map<_, _>>(),
        "total": all.json(),
        "config": config,
    })
}

/// Bytes as people read them.
fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

#[cfg(test)]
mod tests;

//! What a model gave, as files and as JSON.

use std::path::Path;

use millstream::graph::{Array, Map, MapKeys, MapValues, ModelValue, Outputs, Strings};
use millstream::{Error, Result, Tensor};
use serde_json::{Value, json};

use crate::npy::{Numpy, write_file, write_texts};

/// The list of all outputs.
const LIST: &str = "outputs.json";

/// Arrays of up to so many elements are summed up for the table.
const SUMMED_UP: usize = 1 << 20;

/// Makes the folder. A list of an earlier run is removed, so that one that is there belongs to the files.
///
/// # Errors
///
/// A folder that cannot be made or written to.
pub(super) fn prepare(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| Error::write(folder, error))?;
    let list = folder.join(LIST);
    crate::choice::check_output(&list)?;
    match std::fs::remove_file(&list) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::write(&list, error))
        }
        _ => Ok(()),
    }
}

/// Writes all outputs, if there is a folder, and says what they are.
///
/// # Errors
///
/// What went wrong on the device, or files that cannot be written.
pub(super) fn list(outputs: &Outputs, folder: Option<&Path>) -> Result<Vec<Value>> {
    let mut listed = Vec::with_capacity(outputs.len());
    for (at, (name, value)) in outputs.names().iter().zip(outputs.iter()).enumerate() {
        let mut entry = json!({ "name": name });
        add(&mut entry, describe(value, &at.to_string(), folder)?);
        listed.push(entry);
    }
    if let Some(folder) = folder {
        let path = folder.join(LIST);
        let text = serde_json::to_string_pretty(&listed).unwrap_or_default() + "\n";
        std::fs::write(&path, text).map_err(|error| Error::write(&path, error))?;
    }
    Ok(listed)
}

fn add(entry: &mut Value, more: Value) {
    if let (Value::Object(entry), Value::Object(more)) = (entry, more) {
        entry.extend(more);
    }
}

/// A value as JSON. What is an array is written to a file of this name.
fn describe(value: &ModelValue, file: &str, folder: Option<&Path>) -> Result<Value> {
    match value {
        ModelValue::Tensor(tensor) => describe_tensor(tensor, file, folder),
        ModelValue::Strings(strings) => describe_strings(strings, file, folder),
        ModelValue::Sequence(values) => {
            let describe = |(at, value)| describe(value, &format!("{file}.{at}"), folder);
            let values = values.iter().enumerate().map(describe);
            Ok(json!({ "kind": "sequence", "values": values.collect::<Result<Vec<_>>>()? }))
        }
        ModelValue::Optional(value) => {
            let value = value.as_ref().map(|value| describe(value, file, folder)).transpose()?;
            Ok(json!({ "kind": "optional", "value": value }))
        }
        ModelValue::Map(map) => describe_map(map),
    }
}

fn describe_tensor(tensor: &Tensor, file: &str, folder: Option<&Path>) -> Result<Value> {
    let numpy = Numpy::of(tensor.dtype());
    let mut entry = json!({
        "kind": "tensor",
        "dtype": tensor.dtype().name(),
        "shape": tensor.shape(),
    });
    let array = Array::of_tensor(&tensor.to_dtype(numpy.dtype)?)?;
    if let Some(folder) = folder {
        let file = format!("{file}.npy");
        write_file(&folder.join(&file), numpy, array.shape(), array.bytes())?;
        add(&mut entry, json!({ "file": file, "numpy": numpy.descr }));
    }
    if array.elements() > 0 && array.elements() <= SUMMED_UP {
        add(&mut entry, sum_up(&array.to_f64s()?));
    }
    Ok(entry)
}

/// Smallest, largest and mean of some numbers.
fn sum_up(values: &[f64]) -> Value {
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    json!({ "min": number(smallest), "max": number(largest), "mean": number(mean) })
}

fn describe_strings(strings: &Strings, file: &str, folder: Option<&Path>) -> Result<Value> {
    let mut entry = json!({
        "kind": "strings",
        "dtype": "string",
        "shape": strings.shape(),
        "values": strings.values(),
    });
    if let Some(folder) = folder {
        let file = format!("{file}.npy");
        write_texts(&folder.join(&file), strings.shape(), strings.values())?;
        add(&mut entry, json!({ "file": file }));
    }
    Ok(entry)
}

fn describe_map(map: &Map) -> Result<Value> {
    let keys = match map.keys() {
        MapKeys::Ints(keys) => json!(&keys[..]),
        MapKeys::Texts(keys) => json!(&keys[..]),
    };
    let (dtype, values) = match map.values() {
        MapValues::Texts(values) => ("string", json!(&values[..])),
        MapValues::Numbers(array) if array.dtype().is_int() => {
            (array.dtype().name(), json!(array.to_i64s()?))
        }
        MapValues::Numbers(array) => {
            let values = array.to_f64s()?.into_iter().map(number);
            (array.dtype().name(), values.collect())
        }
    };
    Ok(json!({ "kind": "map", "dtype": dtype, "keys": keys, "values": values }))
}

/// A number as JSON, which has no word for some of them.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}

/// A line of the table.
pub(super) fn row((at, entry): (usize, &Value)) -> Vec<String> {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let kind = match entry["kind"].as_str() {
        Some("tensor" | "strings") => {
            let sizes = entry["shape"].as_array().map(Vec::as_slice).unwrap_or_default();
            let sizes: Vec<String> = sizes.iter().map(Value::to_string).collect();
            format!("{}[{}]", text("dtype"), sizes.join(", "))
        }
        Some("sequence") => {
            format!("sequence of {}", entry["values"].as_array().map_or(0, Vec::len))
        }
        _ => text("kind"),
    };
    let short = |key: &str| match &entry[key] {
        Value::Number(number) => format!("{:.6}", number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => text.clone(),
        _ => String::new(),
    };
    let values = match &entry["min"] {
        Value::Null => String::new(),
        _ => format!("{} to {}, mean {}", short("min"), short("max"), short("mean")),
    };
    vec![at.to_string(), text("name"), kind, values]
}

//! The JSON files beside a model's weights. Everything in them is checked.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use millstream_core::Activation;
use serde_json::{Map, Value};

use super::json;
use crate::{Error, Result};

/// Tokenizers of the largest vocabularies have a few tens of megabytes.
const LONGEST: u64 = 64 << 20;
/// Settings have a few kilobytes.
const LONGEST_SETTINGS: u64 = 1 << 20;
/// Far above any model, and low enough that products of two sizes fit.
const LARGEST_SIZE: u64 = 1 << 24;
const MAX_LAYERS: usize = 1024;

/// A file of settings.
pub struct Config {
    path: String,
    values: Map<String, Value>,
}

impl Config {
    pub fn open(path: &Path) -> Result<Self> {
        match read_within(path, LONGEST_SETTINGS)? {
            Value::Object(values) => Ok(Self { path: path.display().to_string(), values }),
            _ => Err(invalid(path.display(), "it is not an object")),
        }
    }

    /// As [`open`](Self::open), but the file may be missing.
    pub fn open_optional(path: &Path) -> Result<Self> {
        match path.exists() {
            true => Self::open(path),
            false => Ok(Self { path: path.display().to_string(), values: Map::new() }),
        }
    }

    pub fn error(&self, reason: impl std::fmt::Display) -> Error {
        invalid(&self.path, reason)
    }

    /// A value that exists and is not null.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// A value, converted by `read`.
    pub fn read<T>(&self, key: &str, read: impl FnOnce(&Value) -> Option<T>) -> Result<Option<T>> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => match read(value) {
                Some(value) => Ok(Some(value)),
                None => {
                    let shown: String = value.to_string().chars().take(100).collect();
                    Err(self.error(format!("{key:?} is {shown}")))
                }
            },
        }
    }

    fn needed<T>(&self, key: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.error(format!("{key:?} is missing")))
    }

    /// A size above 0.
    pub fn size(&self, key: &str) -> Result<usize> {
        let size = |value: &Value| value.as_u64().filter(|size| (1..=LARGEST_SIZE).contains(size));
        self.needed(key, self.read(key, size)?).map(|size| size as usize)
    }

    pub fn layers(&self, key: &str) -> Result<usize> {
        match self.size(key)? {
            layers if layers > MAX_LAYERS => {
                Err(self.error(format!("{key:?} is {layers}, above {MAX_LAYERS}")))
            }
            layers => Ok(layers),
        }
    }

    /// The number of heads, which must divide the size that they share.
    pub fn heads(&self, key: &str, size: usize) -> Result<usize> {
        match self.size(key)? {
            heads if !size.is_multiple_of(heads) => {
                Err(self.error(format!("{heads} heads do not divide a size of {size}")))
            }
            heads => Ok(heads),
        }
    }

    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        self.read(key, Value::as_f64)
    }

    pub fn bool(&self, key: &str, default: bool) -> Result<bool> {
        Ok(self.read(key, Value::as_bool)?.unwrap_or(default))
    }

    pub fn text(&self, key: &str) -> Result<Option<String>> {
        self.read(key, |value| value.as_str().map(str::to_owned))
    }

    /// The id of a token.
    pub fn token(&self, key: &str) -> Result<Option<u32>> {
        self.read(key, token)
    }

    /// The ids of one token or several.
    pub fn tokens(&self, key: &str) -> Result<Option<Vec<u32>>> {
        self.read(key, |value| match value {
            Value::Array(values) => values.iter().map(token).collect(),
            value => Some(vec![token(value)?]),
        })
    }

    /// An activation by its name in Transformers.
    pub fn activation(&self, key: &str) -> Result<Activation> {
        let name = self.needed(key, self.text(key)?)?;
        Ok(match name.as_str() {
            "relu" => Activation::Relu,
            "gelu" | "gelu_python" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::GeluTanh,
            "silu" | "swish" => Activation::Silu,
            "tanh" => Activation::Tanh,
            _ => return Err(self.error(format!("{key:?} is {name:?}, which is not known"))),
        })
    }

    /// Refuses a setting that exists and has another value than the supported one.
    pub fn only(&self, key: &str, supported: impl Into<Value>) -> Result<()> {
        let supported = supported.into();
        match self.value(key) {
            // 1 and 1.0 are the same number.
            Some(value)
                if *value != supported
                    && (value.as_f64().is_none() || value.as_f64() != supported.as_f64()) =>
            {
                let shown: String = value.to_string().chars().take(100).collect();
                Err(self.error(format!("{key:?} is {shown}, supported is {supported}")))
            }
            _ => Ok(()),
        }
    }
}

/// The contents of a JSON file. They take at most 16 times the file's size plus a megabyte of memory.
pub fn read(path: &Path) -> Result<Value> {
    read_within(path, LONGEST)
}

/// The bytes of a file that is at most as long as a tokenizer.
#[cfg(feature = "tokenizers")]
pub fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    read_bytes_within(path, LONGEST)
}

fn read_within(path: &Path, longest: u64) -> Result<Value> {
    let text = read_bytes_within(path, longest)?;
    json::parse(&text).map_err(|error| invalid(path.display(), error))
}

fn read_bytes_within(path: &Path, longest: u64) -> Result<Vec<u8>> {
    let failed = |error| Error::read(path, error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(longest + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > longest {
        return Err(invalid(path.display(), format!("it has more than {longest} bytes")));
    }
    Ok(bytes)
}

pub fn invalid(path: impl std::fmt::Display, reason: impl std::fmt::Display) -> Error {
    Error::Format { path: path.to_string(), reason: reason.to_string() }
}

fn token(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

#[cfg(test)]
mod tests;

//! The JSON files beside a model's weights. Nothing in them is believed.

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

    /// As [`open`](Self::open), where the file may be missing.
    pub fn open_optional(path: &Path) -> Result<Self> {
        match path.exists() {
            true => Self::open(path),
            false => Ok(Self { path: path.display().to_string(), values: Map::new() }),
        }
    }

    pub fn error(&self, reason: impl std::fmt::Display) -> Error {
        invalid(&self.path, reason)
    }

    /// A value that is there and not null.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// A value as `read` understands it.
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

    /// The number of heads, which divides the size that they share.
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

    /// A token's number.
    pub fn token(&self, key: &str) -> Result<Option<u32>> {
        self.read(key, token)
    }

    /// One token or several.
    pub fn tokens(&self, key: &str) -> Result<Option<Vec<u32>>> {
        self.read(key, |value| match value {
            Value::Array(values) => values.iter().map(token).collect(),
            value => Some(vec![token(value)?]),
        })
    }

    /// An activation by the name that Transformers has for it.
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

    /// Refuses a setting that is there and has another value than the one that is supported.
    pub fn only(&self, key: &str, supported: impl Into<Value>) -> Result<()> {
        let supported = supported.into();
        match self.value(key) {
            // 1 and 1.0 are one number.
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

/// The contents of a JSON file, which take at most 16 times its size and a megabyte.
pub fn read(path: &Path) -> Result<Value> {
    read_within(path, LONGEST)
}

fn read_within(path: &Path, longest: u64) -> Result<Value> {
    let failed = |error| Error::read(path, error);
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(longest + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > longest {
        return Err(invalid(path.display(), format!("it has more than {longest} bytes")));
    }
    json::parse(&text).map_err(|error| invalid(path.display(), error))
}

pub fn invalid(path: impl std::fmt::Display, reason: impl std::fmt::Display) -> Error {
    Error::Format { path: path.to_string(), reason: reason.to_string() }
}

fn token(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(value: Value) -> Config {
        let Value::Object(values) = value else { panic!("settings are an object") };
        Config { path: "config.json".into(), values }
    }

    #[test]
    fn sizes_and_layers_are_bounded() {
        let sizes = config(json!({
            "zero": 0, "one": 1, "largest": 1 << 24, "larger": (1 << 24) + 1,
            "most": 1024, "more": 1025,
        }));
        assert_eq!(sizes.size("one").unwrap(), 1);
        assert_eq!(sizes.size("largest").unwrap(), 1 << 24);
        assert!(sizes.size("zero").is_err() && sizes.size("larger").is_err());
        assert_eq!(sizes.layers("most").unwrap(), 1024);
        assert!(sizes.layers("more").is_err());
    }

    #[test]
    fn files_above_their_bound_are_refused_before_they_are_parsed() {
        let name = format!("millstream-long-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Nothing but zeros, which take no room on disk and are no JSON.
        let refused = |bytes: u64, read: &dyn Fn(&Path) -> Option<Error>| {
            File::create(&path).and_then(|file| file.set_len(bytes)).unwrap();
            read(&path).unwrap().to_string().contains("more than")
        };
        let settings = |path: &Path| Config::open(path).err();
        assert!(refused((1 << 20) + 1, &settings) && !refused(1 << 20, &settings));
        let any = |path: &Path| read(path).err();
        assert!(refused((64 << 20) + 1, &any) && !refused(2 << 20, &any));
        std::fs::remove_file(&path).unwrap();
    }
}

//! Values that only the host knows: strings, and what is made of several tensors.

use std::collections::BTreeMap;
use std::fmt;

use millstream_nn::Tensor;

use crate::{Error, Result};

/// A tensor of strings.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Strings {
    shape: Vec<usize>,
    values: Vec<String>,
}

impl Strings {
    /// Strings in row-major order.
    ///
    /// # Errors
    ///
    /// Another number of strings than the shape has.
    pub fn new(shape: &[usize], values: Vec<String>) -> Result<Self> {
        let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        if count != Some(values.len()) {
            let reason = format!("{} strings for shape {shape:?}", values.len());
            return Err(Error::Invalid { op: "strings", reason });
        }
        Ok(Self { shape: shape.to_vec(), values })
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The strings, in row-major order.
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

/// The key of an entry of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapKey {
    /// A number.
    Int(i64),
    /// A string.
    Text(String),
}

impl fmt::Display for MapKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapKey::Int(number) => write!(f, "{number}"),
            MapKey::Text(text) => f.write_str(text),
        }
    }
}

/// A value that goes into a model or comes out of it.
#[derive(Clone, Debug)]
pub enum ModelValue {
    /// A tensor of numbers, on the device.
    Tensor(Tensor),
    /// A tensor of strings.
    Strings(Strings),
    /// Values of one kind.
    Sequence(Vec<ModelValue>),
    /// A value, or none.
    Optional(Option<Box<ModelValue>>),
    /// Values by keys.
    Map(BTreeMap<MapKey, ModelValue>),
}

impl ModelValue {
    /// A word for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            ModelValue::Tensor(_) => "a tensor",
            ModelValue::Strings(_) => "strings",
            ModelValue::Sequence(_) => "a sequence",
            ModelValue::Optional(_) => "an optional",
            ModelValue::Map(_) => "a map",
        }
    }
}

impl From<Tensor> for ModelValue {
    fn from(tensor: Tensor) -> Self {
        ModelValue::Tensor(tensor)
    }
}

impl From<&Tensor> for ModelValue {
    fn from(tensor: &Tensor) -> Self {
        ModelValue::Tensor(tensor.clone())
    }
}

impl From<Strings> for ModelValue {
    fn from(strings: Strings) -> Self {
        ModelValue::Strings(strings)
    }
}

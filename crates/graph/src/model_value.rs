//! Values that go into a model and come out of it: tensors, strings, and what is made of several of them.

use std::sync::Arc;

use millstream_nn::Tensor;

use crate::{Array, Error, Result};

fn invalid<T>(op: &'static str, reason: String) -> Result<T> {
    Err(Error::Invalid { op, reason })
}

/// A tensor of strings. Clones share them.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Strings {
    shape: Vec<usize>,
    values: Arc<[String]>,
}

impl Strings {
    /// Strings in row-major order.
    ///
    /// # Errors
    ///
    /// Another number of strings than the shape has.
    pub fn new(shape: &[usize], values: impl Into<Arc<[String]>>) -> Result<Self> {
        let values = values.into();
        let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        if count != Some(values.len()) {
            return invalid("strings", format!("{} strings for shape {shape:?}", values.len()));
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

    /// The same strings in another shape.
    ///
    /// # Errors
    ///
    /// A shape of another number of elements.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self> {
        Self::new(shape, Arc::clone(&self.values))
    }
}

/// The keys of a [`Map`].
#[derive(Clone, Debug, PartialEq)]
pub enum MapKeys {
    /// Numbers.
    Ints(Arc<[i64]>),
    /// Strings.
    Texts(Arc<[String]>),
}

impl MapKeys {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            MapKeys::Ints(keys) => keys.len(),
            MapKeys::Texts(keys) => keys.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The values of a [`Map`], in the order of its keys.
#[derive(Clone, Debug, PartialEq)]
pub enum MapValues {
    /// Numbers, an array of rank 1.
    Numbers(Array),
    /// Strings.
    Texts(Arc<[String]>),
}

/// A number or string for each of some keys, on the host. Maps of one call may share their keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    keys: MapKeys,
    values: MapValues,
}

impl Map {
    /// A map of these keys to these values.
    ///
    /// # Errors
    ///
    /// Another number of values than keys.
    pub fn new(keys: MapKeys, values: MapValues) -> Result<Self> {
        let (count, flat) = match &values {
            MapValues::Numbers(array) => (array.elements(), array.shape().len() == 1),
            MapValues::Texts(texts) => (texts.len(), true),
        };
        if !flat || count != keys.len() {
            return invalid("map", format!("{count} values for {} keys", keys.len()));
        }
        Ok(Self { keys, values })
    }

    /// The keys.
    pub fn keys(&self) -> &MapKeys {
        &self.keys
    }

    /// The values, in the order of the keys.
    pub fn values(&self) -> &MapValues {
        &self.values
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
    Map(Map),
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

impl From<Map> for ModelValue {
    fn from(map: Map) -> Self {
        ModelValue::Map(map)
    }
}

//! What a call gives back.

use std::ops::Deref;
use std::sync::Arc;

use millstream_core::Layout;
use millstream_nn::Tensor;

use crate::model_value::ModelValue;
use crate::{Error, Result};

/// The outputs of a call, in the order of the model. They are found by name ([`tensor`](Self::tensor)) or as a slice.
///
/// Tensors may not be computed yet; reading them waits.
#[derive(Clone, Debug)]
pub struct Outputs {
    names: Arc<[String]>,
    values: Vec<ModelValue>,
}

impl Outputs {
    pub(super) fn new(names: Arc<[String]>, values: Vec<ModelValue>) -> Self {
        Self { names, values }
    }

    /// The names, in the order of the values.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// An output by its name.
    pub fn get(&self, name: &str) -> Option<&ModelValue> {
        let at = self.names.iter().position(|known| known == name)?;
        self.values.get(at)
    }

    /// An output that is a tensor of numbers, by its name.
    ///
    /// # Errors
    ///
    /// A name that the model does not have, or an output of another kind.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        let invalid = |reason: String| Err(Error::Invalid { op: "outputs", reason });
        match self.get(name) {
            Some(ModelValue::Tensor(tensor)) => Ok(tensor),
            Some(other) => invalid(format!("output {name:?} is {}, not a tensor", other.kind())),
            None => invalid(format!("there is no output {name:?}: there are {:?}", self.names)),
        }
    }

    /// Waits until all tensors are computed.
    ///
    /// # Errors
    ///
    /// What went wrong while they were computed.
    pub fn wait(&self) -> Result<()> {
        self.values.iter().try_for_each(wait)
    }

    /// The values alone.
    pub fn into_values(self) -> Vec<ModelValue> {
        self.values
    }
}

fn wait(value: &ModelValue) -> Result<()> {
    match value {
        ModelValue::Tensor(tensor) => wait_for(tensor),
        ModelValue::Sequence(values) => values.iter().try_for_each(wait),
        ModelValue::Optional(value) => value.iter().try_for_each(|value| wait(value)),
        ModelValue::Strings(_) | ModelValue::Map(_) => Ok(()),
    }
}

/// Waits for one element: it is there when the Command that makes the tensor has run.
fn wait_for(tensor: &Tensor) -> Result<()> {
    if tensor.elements() == 0 {
        return Ok(());
    }
    let (dtype, offset) = (tensor.dtype(), tensor.layout().offset());
    // Elements that share a byte cannot be had one by one.
    let first = match Layout::strided(dtype, &[1], &[1], offset) {
        Ok(layout) if dtype.per_byte() == 1 => {
            Tensor::from_buffer(tensor.buffer().clone(), layout)?
        }
        _ => tensor.clone(),
    };
    first.download()?.view_bytes().map(drop)
}

impl Deref for Outputs {
    type Target = [ModelValue];

    fn deref(&self) -> &[ModelValue] {
        &self.values
    }
}

impl IntoIterator for Outputs {
    type Item = ModelValue;
    type IntoIter = std::vec::IntoIter<ModelValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

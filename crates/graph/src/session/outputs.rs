//! What a call gives back.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use millstream_core::{DType, Element, Layout};
use millstream_nn::Tensor;

use super::joined::{Active, Answer, HostPart};
use crate::model_value::ModelValue;
use crate::{Error, Result};

/// The outputs of a call, in the order of the model. They are found by name ([`tensor`](Self::tensor)) or as a slice.
///
/// Tensors may not be computed yet; reading them waits.
#[derive(Clone, Debug)]
pub struct Outputs {
    names: Arc<[String]>,
    values: Vec<ModelValue>,
    /// Those that are on the host already; empty if none is.
    host: Vec<Option<HostPart>>,
    /// A call by itself counts as running as long as its outputs are there: when they are computed is not known here.
    active: Option<Arc<Active>>,
}

impl Outputs {
    pub(super) fn new(names: Arc<[String]>, values: Vec<ModelValue>) -> Self {
        Self { names, values, host: Vec::new(), active: None }
    }

    pub(super) fn of_answer(names: Arc<[String]>, answer: Answer) -> Self {
        let Answer { values, host } = answer;
        Self { names, values, host, active: None }
    }

    pub(super) fn with_active(mut self, active: Active) -> Self {
        self.active = Some(Arc::new(active));
        self
    }

    /// Whether they are those of a call by itself, which may not be computed yet.
    pub(super) fn is_alone(&self) -> bool {
        self.active.is_some()
    }

    /// As [`wait`](Self::wait), for tensors, without holding a thread.
    pub(super) async fn ready(&self) -> Result<()> {
        for value in &self.values {
            if let ModelValue::Tensor(tensor) = value
                && tensor.elements() > 0
            {
                first_of(tensor)?.download()?.timepoint().await?;
            }
        }
        Ok(())
    }

    /// The elements of an output that is a tensor of numbers, in row-major order. Waits until they are computed.
    ///
    /// Outputs of calls that were joined are on the host already where they are
    /// [small](super::Batching::host_bytes); reading them then copies nothing. `u8` also reads `bool`.
    ///
    /// # Errors
    ///
    /// A name that the model does not have, an output of another kind or element type, or what went wrong while it was
    /// computed.
    pub fn read<T: Element>(&self, name: &str) -> Result<Cow<'_, [T]>> {
        let tensor = self.tensor(name)?;
        let dtype = tensor.dtype();
        if T::DTYPE != dtype && !(T::DTYPE == DType::U8 && dtype == DType::Bool) {
            let asked = T::DTYPE;
            let reason = format!("output {name:?} has elements of {dtype}, not {asked}");
            return Err(Error::Invalid { op: "outputs", reason });
        }
        let at = self.names.iter().position(|known| known == name).unwrap_or(usize::MAX);
        match self.host(at)? {
            Some(bytes) => match try_cast(bytes) {
                Some(elements) => Ok(Cow::Borrowed(elements)),
                None => Ok(Cow::Owned(millstream_core::from_bytes(bytes))),
            },
            None => Ok(Cow::Owned(millstream_core::from_bytes(&tensor.to_bytes()?))),
        }
    }

    /// The bytes of an output, by its number, if they are on the host already: in row-major order.
    pub fn host_bytes(&self, output: usize) -> Option<&[u8]> {
        self.host(output).ok().flatten()
    }

    fn host(&self, output: usize) -> Result<Option<&[u8]>> {
        let Some(Some(part)) = self.host.get(output) else { return Ok(None) };
        let bytes = part.download.view_bytes()?;
        Ok(bytes.get(part.start..part.start + part.bytes))
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
    first_of(tensor)?.download()?.view_bytes().map(drop)
}

/// The first element, or all where there is no single one.
fn first_of(tensor: &Tensor) -> Result<Tensor> {
    match first_element(tensor.layout()) {
        Some(layout) => Tensor::from_buffer(tensor.buffer().clone(), layout),
        None => Ok(tensor.clone()),
    }
}

/// The layout of one element. Elements that share a byte cannot be had one by one.
pub(super) fn first_element(layout: &Layout) -> Option<Layout> {
    let single = Layout::strided(layout.dtype(), &[1], &[1], layout.offset()).ok();
    single.filter(|_| layout.dtype().per_byte() == 1)
}

/// The same bytes as elements, if they lie so that they can be read where they are.
fn try_cast<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    bytemuck::try_cast_slice(bytes).ok()
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

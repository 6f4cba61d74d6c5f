//! What a call gives to a model.

use std::collections::HashMap;

use millstream_core::{Device, TensorSpec};
use millstream_nn::Tensor;

use crate::model::{Dim, Port, ValueType};
use crate::model_value::ModelValue;
use crate::program::HostValue;
use crate::{Array, Error, Result};

/// The inputs of a call: by name, or all in order. Tensors are on the device already. Numbers on the host are given as
/// [`Array`]s; those of calls that are joined are brought to the device at once.
///
/// ```
/// use millstream_core::{DType, Device};
/// use millstream_graph::{Array, Inputs};
/// use millstream_nn::Tensor;
/// # use millstream_cpu as _;
///
/// let device = Device::cpu()?;
/// let (a, b) = (Tensor::zeros(&[2], DType::F32, &device)?, Tensor::ones(&[2], DType::F32, &device)?);
/// let by_name = Inputs::from([("a", &a), ("b", &b)]);
/// let in_order = Inputs::from([&a, &b]);
/// let on_host = Inputs::from([("a", Array::from_slice(&[1f32, 2.0], &[2])?)]);
/// # let _ = (by_name, in_order, on_host);
/// # Ok::<(), millstream_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Inputs(Given);

#[derive(Clone, Debug)]
enum Given {
    Named(Vec<(String, HostValue)>),
    InOrder(Vec<HostValue>),
}

impl<N: Into<String>, V: Into<HostValue>> FromIterator<(N, V)> for Inputs {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(inputs: I) -> Self {
        let named = inputs.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(Given::Named(named.collect()))
    }
}

impl<N: Into<String>, V: Into<HostValue>, const COUNT: usize> From<[(N, V); COUNT]> for Inputs {
    fn from(inputs: [(N, V); COUNT]) -> Self {
        inputs.into_iter().collect()
    }
}

impl<N: Into<String>, V: Into<HostValue>> From<Vec<(N, V)>> for Inputs {
    fn from(inputs: Vec<(N, V)>) -> Self {
        inputs.into_iter().collect()
    }
}

impl<N: Into<String>, V: Into<HostValue>, S> From<HashMap<N, V, S>> for Inputs {
    fn from(inputs: HashMap<N, V, S>) -> Self {
        inputs.into_iter().collect()
    }
}

impl<const COUNT: usize> From<[&Tensor; COUNT]> for Inputs {
    fn from(inputs: [&Tensor; COUNT]) -> Self {
        Self(Given::InOrder(inputs.into_iter().map(HostValue::from).collect()))
    }
}

impl From<&[Tensor]> for Inputs {
    fn from(inputs: &[Tensor]) -> Self {
        Self(Given::InOrder(inputs.iter().map(HostValue::from).collect()))
    }
}

impl<const COUNT: usize> From<[Array; COUNT]> for Inputs {
    fn from(inputs: [Array; COUNT]) -> Self {
        Self(Given::InOrder(inputs.into_iter().map(HostValue::from).collect()))
    }
}

impl From<Vec<ModelValue>> for Inputs {
    fn from(inputs: Vec<ModelValue>) -> Self {
        Self(Given::InOrder(inputs.into_iter().map(HostValue::from).collect()))
    }
}

fn invalid(reason: String) -> Error {
    Error::Invalid { op: "run", reason }
}

/// What a model takes, in words.
fn listed(ports: &[Port]) -> String {
    let texts: Vec<String> =
        ports.iter().map(|port| format!("{} ({})", port.name, port.declared)).collect();
    if texts.is_empty() { "no inputs".into() } else { texts.join(", ") }
}

/// The error of an input that a model does not have.
pub(super) fn unknown(name: &str, ports: &[Port]) -> Error {
    invalid(format!("there is no input {name:?}: the model takes {}", listed(ports)))
}

impl Inputs {
    /// One value per input of the model, checked.
    pub(super) fn arranged(self, ports: &[Port], device: &Device) -> Result<Vec<HostValue>> {
        let values: Vec<Option<HostValue>> = match self.0 {
            Given::InOrder(values) => {
                if values.len() > ports.len() {
                    let (given, takes) = (values.len(), listed(ports));
                    return Err(invalid(format!(
                        "{given} inputs are given, the model takes {takes}"
                    )));
                }
                let mut values: Vec<_> = values.into_iter().map(Some).collect();
                values.resize(ports.len(), None);
                values
            }
            Given::Named(named) => {
                let mut values = vec![None; ports.len()];
                for (name, value) in named {
                    let Some(at) = ports.iter().position(|port| port.name == name) else {
                        return Err(unknown(&name, ports));
                    };
                    if values[at].replace(value).is_some() {
                        return Err(invalid(format!("input {name:?} is given twice")));
                    }
                }
                values
            }
        };
        let arranged = ports.iter().zip(values).map(|(port, value)| match value {
            Some(value) => {
                check(port, &value, device)?;
                Ok(value)
            }
            None => HostValue::of_default(port).ok_or_else(|| {
                invalid(format!(
                    "input {:?} ({}) is not given: the model takes {}",
                    port.name,
                    port.declared,
                    listed(ports)
                ))
            }),
        });
        arranged.collect()
    }
}

/// Whether a value is what an input is declared to be.
fn check(port: &Port, value: &HostValue, device: &Device) -> Result<()> {
    let wrong = |found: String| {
        let Port { name, declared, .. } = port;
        Err(invalid(format!("input {name:?} is {found}, the model takes {declared}")))
    };
    let is_declared = |spec: TensorSpec| match &port.declared {
        ValueType::Tensor(dtype, dims) => {
            let fits = dims.as_ref().is_none_or(|dims| has_shape(dims, spec.shape()));
            spec.dtype() == *dtype && fits
        }
        ValueType::Optional(_) | ValueType::Unknown => true,
        ValueType::Strings(_) | ValueType::Sequence(_) | ValueType::Map(_) => false,
    };
    let value = match value {
        HostValue::Value(value) => value,
        HostValue::Array(array) => {
            let spec = array.array().spec();
            return if is_declared(spec) { Ok(()) } else { wrong(spec.to_string()) };
        }
        HostValue::Constant(_) | HostValue::Whole(_) => {
            return wrong("a value within a model".into());
        }
    };
    match (&port.declared, value) {
        (ValueType::Tensor(..), ModelValue::Tensor(tensor)) => {
            let spec = TensorSpec::of(tensor.layout());
            if !is_declared(spec) {
                return wrong(spec.to_string());
            }
            if tensor.device() != *device {
                let (there, here) = (tensor.device().label(), device.label());
                let text =
                    format!("on {there}, but the session runs on {here}: move it with to_device");
                return Err(invalid(format!("input {:?} is {text}", port.name)));
            }
            Ok(())
        }
        (ValueType::Strings(dims), ModelValue::Strings(strings)) => {
            let fits = dims.as_ref().is_none_or(|dims| has_shape(dims, strings.shape()));
            if fits { Ok(()) } else { wrong(format!("strings of shape {:?}", strings.shape())) }
        }
        (ValueType::Sequence(_), ModelValue::Sequence(_))
        | (ValueType::Map(_), ModelValue::Map(_))
        | (ValueType::Optional(_) | ValueType::Unknown, _) => Ok(()),
        (_, value) => wrong(value.kind().to_owned()),
    }
}

/// Whether a shape is one of those that are declared.
fn has_shape(dims: &[Dim], shape: &[usize]) -> bool {
    let fits = |(dim, size): (&Dim, &usize)| match dim {
        Dim::Known(known) => known == size,
        Dim::Named(_) | Dim::Unknown => true,
    };
    dims.len() == shape.len() && dims.iter().zip(shape).all(fits)
}

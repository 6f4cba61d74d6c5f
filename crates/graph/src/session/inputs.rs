//! What a call gives to a model.

use std::collections::HashMap;

use millstream_core::{Device, TensorSpec};
use millstream_nn::Tensor;

use crate::model::{Dim, Port, ValueType};
use crate::model_value::ModelValue;
use crate::program::HostValue;
use crate::{Error, Result};

/// The inputs of a call: by name, or all in order.
///
/// ```
/// use millstream_core::{DType, Device};
/// use millstream_graph::Inputs;
/// use millstream_nn::Tensor;
/// # use millstream_cpu as _;
///
/// let device = Device::cpu()?;
/// let (a, b) = (Tensor::zeros(&[2], DType::F32, &device)?, Tensor::ones(&[2], DType::F32, &device)?);
/// let by_name = Inputs::from([("a", &a), ("b", &b)]);
/// let in_order = Inputs::from([&a, &b]);
/// # let _ = (by_name, in_order);
/// # Ok::<(), millstream_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Inputs(Given);

#[derive(Clone, Debug)]
enum Given {
    Named(Vec<(String, ModelValue)>),
    InOrder(Vec<ModelValue>),
}

impl<N: Into<String>, V: Into<ModelValue>> FromIterator<(N, V)> for Inputs {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(inputs: I) -> Self {
        let named = inputs.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(Given::Named(named.collect()))
    }
}

impl<N: Into<String>, V: Into<ModelValue>, const COUNT: usize> From<[(N, V); COUNT]> for Inputs {
    fn from(inputs: [(N, V); COUNT]) -> Self {
        inputs.into_iter().collect()
    }
}

impl<N: Into<String>, V: Into<ModelValue>> From<Vec<(N, V)>> for Inputs {
    fn from(inputs: Vec<(N, V)>) -> Self {
        inputs.into_iter().collect()
    }
}

impl<N: Into<String>, V: Into<ModelValue>, S> From<HashMap<N, V, S>> for Inputs {
    fn from(inputs: HashMap<N, V, S>) -> Self {
        inputs.into_iter().collect()
    }
}

impl<const COUNT: usize> From<[&Tensor; COUNT]> for Inputs {
    fn from(inputs: [&Tensor; COUNT]) -> Self {
        Self(Given::InOrder(inputs.into_iter().map(ModelValue::from).collect()))
    }
}

impl From<&[Tensor]> for Inputs {
    fn from(inputs: &[Tensor]) -> Self {
        Self(Given::InOrder(inputs.iter().map(ModelValue::from).collect()))
    }
}

impl From<Vec<ModelValue>> for Inputs {
    fn from(inputs: Vec<ModelValue>) -> Self {
        Self(Given::InOrder(inputs))
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
        let values: Vec<Option<ModelValue>> = match self.0 {
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
                Ok(HostValue::Value(value))
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
fn check(port: &Port, value: &ModelValue, device: &Device) -> Result<()> {
    let wrong = |found: String| {
        let Port { name, declared, .. } = port;
        Err(invalid(format!("input {name:?} is {found}, the model takes {declared}")))
    };
    match (&port.declared, value) {
        (ValueType::Tensor(dtype, dims), ModelValue::Tensor(tensor)) => {
            let fits = tensor.dtype() == *dtype
                && dims.as_ref().is_none_or(|dims| has_shape(dims, tensor.shape()));
            if !fits {
                return wrong(TensorSpec::of(tensor.layout()).to_string());
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

//! Operators that the host computes while a call runs.

use std::fmt;
use std::sync::{Arc, OnceLock};

use millstream_core::{Device, Stream};
use millstream_nn::Tensor;

use super::{Limits, Program, Settings};
use crate::constant::Constant;
use crate::model_value::{Map, ModelValue, Strings};
use crate::{Array, Error, Result};

/// An operator that the host computes while a call runs: on strings and maps, or by running bodies.
///
/// Nothing here waits for the device. What has to be waited for is named by the [step](HostStep) that is given back, so that a
/// call can be awaited without a thread.
pub trait HostOperator: Send + Sync + fmt::Debug {
    /// Whether the contents of this input, if it is a tensor, are read before the operator runs. It is an
    /// [array](HostValue::Array) then.
    fn reads(&self, input: usize) -> bool {
        let _ = input;
        true
    }

    /// Computes the outputs, or says what has to be done before. An input that is not given is `None`.
    ///
    /// # Errors
    ///
    /// Inputs that it does not take, or what went wrong.
    fn run(&self, call: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep>;
}

/// How an operator goes on when what it asked for is there.
pub type Resume<T> = Box<dyn FnOnce(&HostCall<'_>, T) -> Result<HostStep> + Send>;

/// What an operator of the host does next.
pub enum HostStep {
    /// It has its outputs.
    Done(Vec<HostValue>),
    /// It needs the contents of tensors.
    Read {
        /// The tensors.
        tensors: Vec<Tensor>,
        /// How it goes on.
        then: Resume<Vec<Array>>,
    },
    /// It needs what a program makes of these inputs.
    Run {
        /// The program.
        program: Arc<Program>,
        /// Its inputs.
        inputs: Vec<HostValue>,
        /// How it goes on.
        then: Resume<Vec<HostValue>>,
    },
}

impl fmt::Debug for HostStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostStep::Done(values) => f.debug_tuple("Done").field(values).finish(),
            HostStep::Read { tensors, .. } => f.debug_tuple("Read").field(tensors).finish(),
            HostStep::Run { inputs, .. } => f.debug_tuple("Run").field(inputs).finish(),
        }
    }
}

/// A value of a call, as the host has it.
#[derive(Clone, Debug)]
pub enum HostValue {
    /// A value whose contents are where they are.
    Value(ModelValue),
    /// Numbers whose contents are at hand.
    Array(HostArray),
    /// A constant of the model. Programs that get it are compiled for it.
    Constant(Constant),
    /// A sequence of any length: programs that get it are not compiled for its length, and leave it to the host.
    Whole(Arc<Vec<ModelValue>>),
}

/// Numbers on the host, and on the device once they were needed there. Clones share both.
#[derive(Clone, Debug)]
pub struct HostArray(Arc<(Array, OnceLock<Tensor>)>);

impl HostArray {
    /// Numbers that the device has already.
    pub(crate) fn with_tensor(array: Array, tensor: Tensor) -> Self {
        Self(Arc::new((array, OnceLock::from(tensor))))
    }

    /// The numbers.
    pub fn array(&self) -> &Array {
        &self.0.0
    }

    fn tensor(&self, device: &Device) -> Result<Tensor> {
        if let Some(tensor) = self.0.1.get() {
            return Ok(tensor.clone());
        }
        let tensor = self.array().to_tensor(device)?;
        Ok(self.0.1.get_or_init(|| tensor).clone())
    }
}

impl From<Array> for HostValue {
    fn from(array: Array) -> Self {
        HostValue::Array(HostArray(Arc::new((array, OnceLock::new()))))
    }
}

impl<T: Into<ModelValue>> From<T> for HostValue {
    fn from(value: T) -> Self {
        HostValue::Value(value.into())
    }
}

fn wrong<T>(wanted: &str, found: &HostValue) -> Result<T> {
    let found = match found {
        HostValue::Value(value) => value.kind(),
        HostValue::Array(_) | HostValue::Constant(_) => "a tensor",
        HostValue::Whole(_) => "a sequence",
    };
    Err(Error::Invalid { op: "value", reason: format!("{wanted} needed, found {found}") })
}

impl HostValue {
    /// The numbers of a tensor, if they are at hand.
    ///
    /// # Errors
    ///
    /// A constant that cannot be computed.
    pub fn content(&self, call: &HostCall<'_>) -> Result<Option<Array>> {
        self.content_at(call.settings)
    }

    pub(crate) fn content_at(&self, settings: &Settings) -> Result<Option<Array>> {
        match self {
            HostValue::Array(array) => Ok(Some(array.array().clone())),
            HostValue::Constant(constant) => Ok(Some(constant.array(&settings.folder)?)),
            HostValue::Value(_) | HostValue::Whole(_) => Ok(None),
        }
    }

    /// The numbers of a tensor that was read.
    ///
    /// # Errors
    ///
    /// A value that is no tensor.
    pub fn array(&self, call: &HostCall<'_>) -> Result<Array> {
        match self.content(call)? {
            Some(array) => Ok(array),
            None => wrong("numbers are", self),
        }
    }

    /// A tensor of the call's device.
    ///
    /// # Errors
    ///
    /// A value that is no tensor, or no memory.
    pub fn tensor(&self, call: &HostCall<'_>) -> Result<Tensor> {
        self.tensor_at(call.settings)
    }

    pub(crate) fn tensor_at(&self, settings: &Settings) -> Result<Tensor> {
        match self {
            HostValue::Value(ModelValue::Tensor(tensor)) => Ok(tensor.clone()),
            HostValue::Array(array) => array.tensor(settings.folder.device()),
            HostValue::Constant(constant) => constant.load(&settings.folder),
            HostValue::Value(_) | HostValue::Whole(_) => wrong("a tensor of numbers is", self),
        }
    }

    /// The strings that it is.
    ///
    /// # Errors
    ///
    /// A value of another kind.
    pub fn strings(&self) -> Result<&Strings> {
        match self {
            HostValue::Value(ModelValue::Strings(strings)) => Ok(strings),
            other => wrong("strings are", other),
        }
    }

    /// The map that it is.
    ///
    /// # Errors
    ///
    /// A value of another kind.
    pub fn map(&self) -> Result<&Map> {
        match self {
            HostValue::Value(ModelValue::Map(map)) => Ok(map),
            other => wrong("a map is", other),
        }
    }

    /// The elements of the sequence that it is.
    ///
    /// # Errors
    ///
    /// A value of another kind.
    pub fn sequence(self) -> Result<Arc<Vec<ModelValue>>> {
        match self {
            HostValue::Value(ModelValue::Sequence(values)) => Ok(Arc::new(values)),
            HostValue::Whole(values) => Ok(values),
            other => wrong("a sequence is", &other),
        }
    }

    /// The same value, not as a constant: a program that gets it is not compiled for it. The contents of few numbers stay at
    /// hand.
    ///
    /// # Errors
    ///
    /// A constant that cannot be computed, or no memory.
    pub fn unbound(self, call: &HostCall<'_>) -> Result<Self> {
        const FEW_BYTES: usize = 256;
        let HostValue::Constant(constant) = &self else { return Ok(self) };
        let tensor = self.tensor(call)?;
        if constant.spec().layout()?.dense_bytes() > FEW_BYTES {
            return Ok(tensor.into());
        }
        Ok(HostValue::Array(HostArray::with_tensor(self.array(call)?, tensor)))
    }

    /// The value as a caller gets it.
    ///
    /// # Errors
    ///
    /// No memory for numbers that are not on the device yet.
    pub fn into_value(self, call: &HostCall<'_>) -> Result<ModelValue> {
        self.into_value_at(call.settings)
    }

    pub(crate) fn into_value_at(self, settings: &Settings) -> Result<ModelValue> {
        match self {
            HostValue::Value(value) => Ok(value),
            HostValue::Whole(values) => {
                let values = Arc::try_unwrap(values).unwrap_or_else(|values| (*values).clone());
                Ok(ModelValue::Sequence(values))
            }
            HostValue::Array(_) | HostValue::Constant(_) => Ok(self.tensor_at(settings)?.into()),
        }
    }
}

/// The call for which the host computes an operator.
#[derive(Debug)]
pub struct HostCall<'a> {
    pub(super) stream: &'a Stream,
    pub(super) settings: &'a Settings,
}

impl HostCall<'_> {
    /// The device of the call.
    pub fn device(&self) -> Device {
        self.stream.device()
    }

    /// What a call may use.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }
}

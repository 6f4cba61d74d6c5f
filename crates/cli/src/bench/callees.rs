//! What `bench` calls: modules and sessions.

use millstream::graph::closeness::are_close;
use millstream::graph::{Array, Inputs, Outputs, Session};
use millstream::nn::{Module, Result};
use millstream::{DType, Device, Download, Tensor};

use super::measure::Callee;
use crate::model_answer::ModelAnswer;
use crate::model_inputs::{HostInputs, ModelInputs};
use crate::workloads::{Input, Origin, Workload};

/// A module, or a plan of one.
pub(crate) struct ModuleCallee<'a> {
    pub workload: &'a Workload,
    pub device: Device,
    pub origin: Origin,
    pub model: &'a dyn Module,
}

impl Callee for ModuleCallee<'_> {
    type Input = Input;
    type Answer = Download;

    fn input(&self, seed: usize) -> Result<Input> {
        Input::new(self.workload.input(seed, &self.device)?, self.origin)
    }

    fn call(&self, input: &Input) -> Result<Download> {
        input.call(self.model)
    }

    fn is(&self, answer: &Download, expected: &[u8]) -> Result<bool> {
        Ok(answer.view_bytes()? == expected)
    }

    fn bytes(&self, answer: &Download) -> Result<Vec<u8>> {
        answer.view_bytes().map(<[u8]>::to_vec)
    }
}

/// A session of a module, which joins calls.
pub(crate) struct TracedCallee<'a> {
    pub workload: &'a Workload,
    pub origin: Origin,
    pub session: &'a Session,
    /// Whether answers have to have the expected bits, or about the numbers.
    pub exact: bool,
}

impl Callee for TracedCallee<'_> {
    type Input = TracedInput;
    type Answer = Outputs;

    fn input(&self, seed: usize) -> Result<TracedInput> {
        let tensor = self.workload.input(seed, &self.session.device())?;
        Ok(match self.origin {
            Origin::Device => TracedInput::Device(tensor),
            Origin::Host => {
                let array = Array::new(tensor.dtype(), tensor.shape(), tensor.to_bytes()?)?;
                TracedInput::Host(array)
            }
        })
    }

    fn call(&self, input: &TracedInput) -> Result<Outputs> {
        let outputs = self.session.run(input.given())?;
        if outputs.host_bytes(0).is_none() {
            outputs.wait()?;
        }
        Ok(outputs)
    }

    fn is(&self, answer: &Outputs, expected: &[u8]) -> Result<bool> {
        let same = |bytes: &[u8]| match self.exact {
            true => bytes == expected,
            false => are_close(DType::F32, bytes, expected),
        };
        match answer.host_bytes(0) {
            Some(bytes) => Ok(same(bytes)),
            None => Ok(same(&self.bytes(answer)?)),
        }
    }

    fn bytes(&self, answer: &Outputs) -> Result<Vec<u8>> {
        answer.tensor("output")?.to_bytes()
    }
}

/// The input of a session of a module, where its caller has it.
pub(crate) enum TracedInput {
    Device(Tensor),
    Host(Array),
}

impl TracedInput {
    /// The input of one call. What an earlier call has brought to the device is not used again.
    pub fn given(&self) -> Inputs {
        match self {
            TracedInput::Device(tensor) => Inputs::from([tensor]),
            TracedInput::Host(array) => Inputs::from([array.clone()]),
        }
    }
}

/// A session of a model file.
pub(crate) struct SessionCallee<'a> {
    pub session: &'a Session,
    pub inputs: &'a ModelInputs,
    pub origin: Origin,
    /// Whether answers have to have the expected bits, or about the numbers.
    pub exact: bool,
}

/// Inputs of a session, where their caller has them.
pub(crate) enum SessionInput {
    Device(Inputs),
    Host(HostInputs),
}

impl Callee for SessionCallee<'_> {
    type Input = SessionInput;
    type Answer = ModelAnswer;

    fn input(&self, seed: usize) -> Result<SessionInput> {
        let inputs = self.inputs.on_host(seed % self.inputs.sets(), seed)?;
        Ok(match self.origin {
            Origin::Device => SessionInput::Device(inputs.upload(&self.session.device())?),
            Origin::Host => SessionInput::Host(inputs),
        })
    }

    fn call(&self, input: &SessionInput) -> Result<ModelAnswer> {
        let inputs = match input {
            SessionInput::Device(inputs) => inputs.clone(),
            SessionInput::Host(inputs) => inputs.given(&self.session.device())?,
        };
        ModelAnswer::of(self.session.run(inputs)?)
    }

    fn is(&self, answer: &ModelAnswer, expected: &[u8]) -> Result<bool> {
        if self.exact { answer.is(expected) } else { answer.is_close(expected) }
    }

    fn bytes(&self, answer: &ModelAnswer) -> Result<Vec<u8>> {
        answer.bytes()
    }
}

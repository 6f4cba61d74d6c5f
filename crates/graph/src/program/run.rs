//! One call of a program.

use std::sync::Arc;

use millstream_core::{Buffer, Download, Layout, Plan, Stream};
use millstream_nn::Tensor;
use smallvec::SmallVec;

use super::stage::{Arrival, Call, Form, Produced, Stage, Then};
use super::{HostCall, Program, Settings, node_error};
use crate::model_value::ModelValue;
use crate::{Array, Error, Result};

/// What a call does next.
pub(crate) enum Step {
    /// It goes on when these have arrived.
    Wait(Vec<Arc<Download>>),
    /// It has its outputs.
    Done(Vec<ModelValue>),
}

/// A call on its way through the stages.
pub(crate) struct Run<'p> {
    program: &'p Program,
    registers: Vec<ModelValue>,
    forms: Vec<Form>,
    stage: Option<Arc<Stage>>,
    /// Contents that the next stage needs.
    waiting: Vec<(Arc<Download>, Layout)>,
}

fn invalid<T>(reason: String) -> Result<T> {
    Err(Error::Invalid { op: "run", reason })
}

impl<'p> Run<'p> {
    /// A call with these inputs, one per input of the body.
    pub fn new(program: &'p Program, inputs: Vec<ModelValue>) -> Result<Self> {
        let forms = inputs.iter().map(Form::of).collect();
        let mut registers = Vec::with_capacity(inputs.len());
        inputs.into_iter().for_each(|value| flatten(value, &mut registers));
        Ok(Self { program, registers, forms, stage: None, waiting: Vec::new() })
    }

    /// Goes on until contents must be waited for, or the outputs are there.
    pub fn go_on(&mut self, settings: &Settings, stream: &Stream) -> Result<Step> {
        loop {
            let stage = match self.stage.take() {
                None => self.program.first(settings, std::mem::take(&mut self.forms))?,
                Some(stage) => self.following(settings, stream, &stage)?,
            };
            if let Some(plan) = &stage.plan {
                self.run_plan(stream, plan, &stage)?;
            }
            match &stage.then {
                Then::Finish(outputs) => {
                    let device = stream.device();
                    let found = outputs.iter().map(|output| self.find(output, &device));
                    return Ok(Step::Done(found.collect::<Result<_>>()?));
                }
                Then::Continue { contents, .. } => {
                    for &register in contents {
                        let tensor = self.tensor(register)?;
                        let layout = Layout::contiguous(tensor.dtype(), tensor.shape())?;
                        self.waiting.push((Arc::new(tensor.download()?), layout));
                    }
                    self.stage = Some(stage);
                    if !self.waiting.is_empty() {
                        let downloads = self.waiting.iter();
                        return Ok(Step::Wait(downloads.map(|(one, _)| Arc::clone(one)).collect()));
                    }
                }
            }
        }
    }

    fn tensor(&self, register: usize) -> Result<&Tensor> {
        match self.registers.get(register) {
            Some(ModelValue::Tensor(tensor)) => Ok(tensor),
            _ => invalid(format!("register {register} holds no tensor")),
        }
    }

    fn run_plan(&mut self, stream: &Stream, plan: &Plan, stage: &Stage) -> Result<()> {
        let mut dense: SmallVec<[Tensor; 8]> = SmallVec::new();
        for (&register, layout) in stage.inputs.iter().zip(plan.inputs()) {
            let tensor = self.tensor(register)?;
            let fits = tensor.layout() == layout;
            // What lies otherwise than the plan takes it is copied.
            dense.push(if fits { tensor.clone() } else { tensor.copy()? });
        }
        let outputs: SmallVec<[Buffer; 8]> = stage
            .outputs
            .iter()
            .map(|layout| stream.allocate(layout.dense_bytes()))
            .collect::<Result<_>>()?;
        let read: SmallVec<[&Buffer; 8]> = dense.iter().map(Tensor::buffer).collect();
        let written: SmallVec<[&Buffer; 8]> = outputs.iter().collect();
        stream.run(plan, &read, &written)?;
        drop(written);
        if self.registers.len() != stage.first_output {
            return invalid("a stage was entered with other registers than it was made for".into());
        }
        for (buffer, layout) in outputs.into_iter().zip(&stage.outputs) {
            self.registers.push(Tensor::from_buffer(buffer, *layout)?.into());
        }
        Ok(())
    }

    fn find(&self, produced: &Produced, device: &millstream_core::Device) -> Result<ModelValue> {
        Ok(match produced {
            Produced::Register(register) => match self.registers.get(*register) {
                Some(value) => value.clone(),
                None => return invalid(format!("register {register} is empty")),
            },
            Produced::Constant(constant) => match constant.loaded(device) {
                Some(tensor) => tensor.into(),
                None => return Err(crate::constant::not_at_hand("an output")),
            },
            Produced::Sequence(values) => {
                let values = values.iter().map(|value| self.find(value, device));
                ModelValue::Sequence(values.collect::<Result<_>>()?)
            }
            Produced::Optional(value) => {
                let value = value.as_ref().map(|value| self.find(value, device)).transpose()?;
                ModelValue::Optional(value.map(Box::new))
            }
            Produced::Known(known) => (**known).clone(),
        })
    }

    /// The stage behind one whose contents have arrived.
    fn following(
        &mut self,
        settings: &Settings,
        stream: &Stream,
        stage: &Stage,
    ) -> Result<Arc<Stage>> {
        let Then::Continue { calls, saved, next, .. } = &stage.then else {
            return invalid("nothing follows the last stage".into());
        };
        let mut contents = Vec::with_capacity(self.waiting.len());
        for (download, layout) in self.waiting.drain(..) {
            let bytes = bytes::Bytes::copy_from_slice(download.view_bytes()?);
            contents.push(Array::new(layout.dtype(), layout.shape(), bytes)?);
        }
        let mut forms = Vec::new();
        for call in calls {
            for value in self.call(settings, stream, call)? {
                forms.push(Form::of(&value));
                flatten(value, &mut self.registers);
            }
        }
        Program::next(settings, saved, next, Arrival { contents, forms })
    }

    fn call(&self, settings: &Settings, stream: &Stream, call: &Call) -> Result<Vec<ModelValue>> {
        let device = stream.device();
        let inputs = call
            .inputs
            .iter()
            .map(|input| input.as_ref().map(|input| self.find(input, &device)).transpose());
        let inputs: Vec<Option<ModelValue>> = inputs.collect::<Result<_>>()?;
        let host = HostCall { stream, settings };
        let run = || {
            let mut values = call.operator.run(&host, &inputs)?;
            if values.len() < call.outputs {
                return invalid(format!("{} outputs, {} are read", values.len(), call.outputs));
            }
            values.truncate(call.outputs);
            Ok(values)
        };
        run().map_err(|error| node_error(&call.node, &call.kind, error))
    }
}

/// Puts what a value is made of into registers, in the order in which stages count them.
fn flatten(value: ModelValue, registers: &mut Vec<ModelValue>) {
    match value {
        ModelValue::Tensor(_) | ModelValue::Strings(_) | ModelValue::Map(_) => {
            registers.push(value)
        }
        ModelValue::Sequence(values) => {
            values.into_iter().for_each(|value| flatten(value, registers));
        }
        ModelValue::Optional(value) => {
            value.into_iter().for_each(|value| flatten(*value, registers));
        }
    }
}

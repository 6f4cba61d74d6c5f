//! A program on its way through its stages.

use std::sync::Arc;

use millstream_core::{Buffer, BufferLike, Download, Plan, Stream};
use millstream_nn::Tensor;
use smallvec::SmallVec;

use super::{Arriving, invalid};
use crate::model_value::ModelValue;
use crate::program::host::HostArray;
use crate::program::stage::{Arrival, Call, Form, Produced, Stage, Then};
use crate::program::{HostCall, HostStep, HostValue, Program, Resume, Settings, node_error};
use crate::{Array, Result};

/// What a frame does next.
pub(super) enum Next {
    /// It goes on when these have arrived.
    Wait(Vec<Arc<Download>>),
    /// It goes on when this program has its outputs.
    Call(Arc<Program>, Vec<HostValue>),
    Done(Vec<HostValue>),
}

/// A program, and how far it has come.
pub(super) struct Frame {
    program: Arc<Program>,
    registers: Vec<HostValue>,
    at: At,
}

/// Where a frame stands.
enum At {
    /// Before the first stage.
    Start(Vec<Form>),
    /// Behind the plan of a stage. Contents of registers are on their way.
    Reading(Arc<Stage>, Vec<(usize, Arriving)>),
    /// Operators of the host run one after another.
    Calling(Calling),
    /// Nothing is left to do.
    End,
}

/// The memory that an output of a stage is wanted in, if it can be written there: nothing that the plan reads or a register has is there.
fn wanted_at(
    stage: &Stage,
    output: usize,
    bound: &[Option<Tensor>],
    read: &[Tensor],
    registers: &[HostValue],
) -> Option<Buffer> {
    let Then::Finish(produced) = &stage.then else { return None };
    let register = stage.first_output + output;
    let is_wanted =
        |produced: &Produced| matches!(produced, Produced::Register(at) if *at == register);
    let mut places = produced.iter().zip(bound).filter(|(produced, _)| is_wanted(produced));
    let tensor = places.find_map(|(_, tensor)| tensor.as_ref())?;
    let is_whole = tensor.layout() == &stage.outputs[output]
        && tensor.buffer().bytes() == stage.outputs[output].dense_bytes();
    let same = |other: &Tensor| other.buffer().identity() == tensor.buffer().identity();
    let has =
        |value: &HostValue| matches!(value, HostValue::Value(ModelValue::Tensor(at)) if same(at));
    let is_free = !read.iter().any(same) && !registers.iter().any(has);
    (is_whole && is_free).then(|| tensor.buffer().clone())
}

/// The operators that the host computes behind a stage.
struct Calling {
    stage: Arc<Stage>,
    /// How many of them have their outputs.
    finished: usize,
    /// The forms of these outputs.
    forms: Vec<Form>,
    /// What the next one waits for.
    pending: Pending,
}

enum Pending {
    Nothing,
    Contents(Vec<Arriving>, Resume<Vec<Array>>),
    Program(Resume<Vec<HostValue>>),
    Values(Vec<HostValue>, Resume<Vec<HostValue>>),
}

impl Frame {
    /// A program before its first stage.
    pub fn new(program: Arc<Program>, inputs: Vec<HostValue>, forms: Vec<Form>) -> Self {
        let mut registers = Vec::with_capacity(inputs.len());
        for (value, form) in inputs.into_iter().zip(&forms) {
            flatten(value, form, &mut registers);
        }
        Self { program, registers, at: At::Start(forms) }
    }

    /// Hands over what a program made that this frame called.
    pub fn receive(&mut self, values: Vec<HostValue>) -> Result<()> {
        if let At::Calling(calling) = &mut self.at
            && let Pending::Program(then) =
                std::mem::replace(&mut calling.pending, Pending::Nothing)
        {
            calling.pending = Pending::Values(values, then);
            return Ok(());
        }
        invalid("nobody waits for what a program made".into())
    }

    /// Goes on until something must be waited for, or the outputs are there.
    pub fn go_on(
        &mut self,
        settings: &Settings,
        stream: &Stream,
        bound: &[Option<Tensor>],
    ) -> Result<Next> {
        loop {
            let stage = match std::mem::replace(&mut self.at, At::End) {
                At::Start(forms) => self.program.first(settings, forms)?,
                At::Reading(stage, arriving) => {
                    for (register, arriving) in arriving {
                        let array = HostArray::with_tensor(arriving.array()?, arriving.tensor);
                        self.registers[register] = HostValue::Array(array);
                    }
                    self.at = At::Calling(Calling::new(stage));
                    continue;
                }
                At::Calling(mut calling) => {
                    if let Some(next) = self.call(&mut calling, settings, stream)? {
                        self.at = At::Calling(calling);
                        return Ok(next);
                    }
                    self.following(calling, settings)?
                }
                At::End => return invalid("the call has ended".into()),
            };
            if let Some(plan) = &stage.plan {
                self.run_plan(settings, stream, (plan, &stage), bound)?;
            }
            let arriving = match &stage.then {
                Then::Finish(outputs) => {
                    let found = outputs.iter().map(|output| self.find(output, settings));
                    return Ok(Next::Done(found.collect::<Result<_>>()?));
                }
                Then::Continue { contents, reads, .. } => self.read(contents, reads)?,
            };
            let downloads: Vec<Arc<Download>> =
                arriving.iter().map(|(_, arriving)| Arc::clone(&arriving.download)).collect();
            self.at = At::Reading(stage, arriving);
            if !downloads.is_empty() {
                return Ok(Next::Wait(downloads));
            }
        }
    }

    /// Sends for the contents of registers that are not at hand.
    fn read(&self, contents: &[usize], reads: &[usize]) -> Result<Vec<(usize, Arriving)>> {
        let mut arriving: Vec<(usize, Arriving)> = Vec::new();
        for &register in contents.iter().chain(reads) {
            if let Some(HostValue::Value(ModelValue::Tensor(tensor))) = self.registers.get(register)
                && arriving.iter().all(|(known, _)| *known != register)
            {
                arriving.push((register, Arriving::new(tensor.clone())?));
            }
        }
        Ok(arriving)
    }

    /// The stage behind one whose operators of the host have all run.
    fn following(&self, calling: Calling, settings: &Settings) -> Result<Arc<Stage>> {
        let Then::Continue { contents, saved, next, .. } = &calling.stage.then else {
            return invalid("nothing follows the last stage".into());
        };
        let mut arrays = Vec::with_capacity(contents.len());
        for &register in contents {
            match self.registers.get(register).map(|value| value.content_at(settings)) {
                Some(Ok(Some(array))) => arrays.push(array),
                Some(Err(error)) => return Err(error),
                Some(Ok(None)) | None => {
                    return invalid(format!("register {register} holds no numbers"));
                }
            }
        }
        let arrived = Arrival { contents: arrays, forms: calling.forms };
        self.program.next(settings, (saved, next), arrived)
    }

    fn run_plan(
        &mut self,
        settings: &Settings,
        stream: &Stream,
        (plan, stage): (&Plan, &Stage),
        bound: &[Option<Tensor>],
    ) -> Result<()> {
        let mut dense: SmallVec<[Tensor; 8]> = SmallVec::new();
        for (&register, layout) in stage.inputs.iter().zip(plan.inputs()) {
            let Some(value) = self.registers.get(register) else {
                return invalid(format!("register {register} is empty"));
            };
            let tensor = value.tensor_at(settings)?;
            let fits = tensor.layout() == layout;
            // What lies otherwise than the plan takes it is copied.
            dense.push(if fits { tensor } else { tensor.copy()? });
        }
        let outputs: SmallVec<[Buffer; 8]> = stage
            .outputs
            .iter()
            .enumerate()
            .map(|(output, layout)| {
                match wanted_at(stage, output, bound, &dense, &self.registers) {
                    Some(buffer) => Ok(buffer),
                    None => stream.allocate(layout.dense_bytes()),
                }
            })
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

    fn find(&self, produced: &Produced, settings: &Settings) -> Result<HostValue> {
        Ok(match produced {
            Produced::Register(register) => match self.registers.get(*register) {
                Some(value) => value.clone(),
                None => return invalid(format!("register {register} is empty")),
            },
            Produced::Constant(constant) => HostValue::Constant(constant.clone()),
            Produced::Sequence(_) | Produced::Optional(_) => {
                self.find_value(produced, settings)?.into()
            }
            Produced::Known(known) => (**known).clone().into(),
        })
    }

    fn find_value(&self, produced: &Produced, settings: &Settings) -> Result<ModelValue> {
        match produced {
            Produced::Sequence(values) => {
                let values = values.iter().map(|value| self.find_value(value, settings));
                Ok(ModelValue::Sequence(values.collect::<Result<_>>()?))
            }
            Produced::Optional(value) => {
                let value = value.as_ref().map(|value| self.find_value(value, settings));
                Ok(ModelValue::Optional(value.transpose()?.map(Box::new)))
            }
            Produced::Register(_) | Produced::Constant(_) | Produced::Known(_) => {
                self.find(produced, settings)?.into_value_at(settings)
            }
        }
    }

    /// Runs operators of the host until all have their outputs, or one has to wait.
    fn call(
        &mut self,
        calling: &mut Calling,
        settings: &Settings,
        stream: &Stream,
    ) -> Result<Option<Next>> {
        let stage = Arc::clone(&calling.stage);
        let Then::Continue { calls, .. } = &stage.then else {
            return invalid("nothing follows the last stage".into());
        };
        let host = HostCall { stream, settings };
        while let Some(call) = calls.get(calling.finished) {
            let pending = std::mem::replace(&mut calling.pending, Pending::Nothing);
            let step = self.step(call, pending, &host);
            let step = step.map_err(|error| node_error(&call.node, &call.kind, error))?;
            match step {
                HostStep::Done(values) => {
                    if values.len() < call.outputs {
                        return invalid(format!(
                            "{} outputs of {}, {} are read",
                            values.len(),
                            call.kind,
                            call.outputs
                        ));
                    }
                    for value in values.into_iter().take(call.outputs) {
                        let form = Form::of_made(&value);
                        flatten(value, &form, &mut self.registers);
                        calling.forms.push(form);
                    }
                    calling.finished += 1;
                }
                HostStep::Read { tensors, then } => {
                    let arriving: Vec<Arriving> =
                        tensors.into_iter().map(Arriving::new).collect::<Result<_>>()?;
                    let downloads = arriving.iter().map(|one| Arc::clone(&one.download)).collect();
                    calling.pending = Pending::Contents(arriving, then);
                    return Ok(Some(Next::Wait(downloads)));
                }
                HostStep::Run { program, inputs, then } => {
                    calling.pending = Pending::Program(then);
                    return Ok(Some(Next::Call(program, inputs)));
                }
            }
        }
        Ok(None)
    }

    /// One step of an operator of the host.
    fn step(&self, call: &Call, pending: Pending, host: &HostCall<'_>) -> Result<HostStep> {
        match pending {
            Pending::Nothing => {
                let inputs = call.inputs.iter().map(|input| {
                    input.as_ref().map(|input| self.find(input, host.settings)).transpose()
                });
                let inputs = inputs.collect::<Result<_>>()?;
                call.operator.run(host, inputs)
            }
            Pending::Contents(arriving, then) => {
                let arrays = arriving.iter().map(Arriving::array).collect::<Result<_>>()?;
                then(host, arrays)
            }
            Pending::Values(values, then) => then(host, values),
            Pending::Program(_) => invalid("a program has not finished".into()),
        }
    }
}

impl Calling {
    fn new(stage: Arc<Stage>) -> Self {
        Self { stage, finished: 0, forms: Vec::new(), pending: Pending::Nothing }
    }
}

/// Puts what a value is made of into registers, in the order in which stages count them.
fn flatten(value: HostValue, form: &Form, registers: &mut Vec<HostValue>) {
    match (form, value) {
        (Form::Constant(_), _) => {}
        (Form::Sequence(forms), HostValue::Value(ModelValue::Sequence(values))) => {
            let values = values.into_iter().zip(forms);
            values.for_each(|(value, form)| flatten(HostValue::Value(value), form, registers));
        }
        (Form::Optional(form), HostValue::Value(ModelValue::Optional(value))) => {
            if let (Some(value), Some(form)) = (value, form) {
                flatten(HostValue::Value(*value), form, registers);
            }
        }
        (Form::Opaque(_), HostValue::Value(ModelValue::Sequence(values))) => {
            registers.push(HostValue::Whole(Arc::new(values)));
        }
        (Form::Tensor(_) | Form::Sequence(_) | Form::Optional(_) | Form::Opaque(_), value) => {
            registers.push(value)
        }
    }
}

//! One call of a program.
//!
//! A call is a stack of frames. The first is the program itself; an operator of the host that runs a program, such as a loop, adds
//! a frame for it, and goes on when that has its outputs. So nothing waits within anything else, and the same code serves callers
//! that block and callers that await.

mod frame;

use std::sync::Arc;

use millstream_core::{Download, Layout, Stream};
use millstream_nn::Tensor;

use super::stage::Form;
use super::{HostValue, Program, Settings};
use crate::model_value::ModelValue;
use crate::{Array, Error, Result};
use frame::{Frame, Next};

/// What a call does next.
pub(crate) enum Step {
    /// It goes on when these have arrived.
    Wait(Vec<Arc<Download>>),
    /// It has its outputs.
    Done(Vec<ModelValue>),
}

/// A call on its way through the stages.
pub(crate) struct Run {
    frames: Vec<Frame>,
    /// For each output the tensor that it is written to, if a plan makes it and it fits. Empty if there are none.
    bound: Vec<Option<Tensor>>,
}

fn invalid<T>(reason: String) -> Result<T> {
    Err(Error::Invalid { op: "run", reason })
}

impl Run {
    /// A call with these inputs, one per input of the body.
    pub fn new(program: &Arc<Program>, inputs: Vec<HostValue>) -> Self {
        let forms = inputs.iter().map(Form::of_given).collect();
        Self { frames: vec![Frame::new(Arc::clone(program), inputs, forms)], bound: Vec::new() }
    }

    /// Says where outputs are wanted.
    pub fn bind(&mut self, bound: Vec<Option<Tensor>>) {
        self.bound = bound;
    }

    /// Goes on until contents must be waited for, or the outputs are there.
    pub fn go_on(&mut self, settings: &Settings, stream: &Stream) -> Result<Step> {
        loop {
            // What is wanted are the outputs of the program itself.
            let bound = if self.frames.len() == 1 { &self.bound[..] } else { &[] };
            let Some(top) = self.frames.last_mut() else {
                return invalid("the call has ended".into());
            };
            match top.go_on(settings, stream, bound)? {
                Next::Wait(downloads) => return Ok(Step::Wait(downloads)),
                Next::Call(program, inputs) => {
                    let forms = inputs.iter().map(Form::of_given).collect();
                    self.frames.push(Frame::new(program, inputs, forms));
                }
                Next::Done(values) => {
                    self.frames.pop();
                    match self.frames.last_mut() {
                        Some(caller) => caller.receive(values)?,
                        None => {
                            let values = values.into_iter();
                            let values = values.map(|value| value.into_value_at(settings));
                            return Ok(Step::Done(values.collect::<Result<_>>()?));
                        }
                    }
                }
            }
        }
    }
}

/// The contents of a tensor on their way to the host.
struct Arriving {
    tensor: Tensor,
    download: Arc<Download>,
}

impl Arriving {
    fn new(tensor: Tensor) -> Result<Self> {
        let download = Arc::new(tensor.download()?);
        Ok(Self { tensor, download })
    }

    /// The contents. They have arrived.
    fn array(&self) -> Result<Array> {
        let layout = Layout::contiguous(self.tensor.dtype(), self.tensor.shape())?;
        let bytes = bytes::Bytes::copy_from_slice(self.download.view_bytes()?);
        Array::new(layout.dtype(), layout.shape(), bytes)
    }
}

//! A model that any number of threads call.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Device, Stream};

use crate::constant::Folder;
use crate::model::Body;
use crate::model_value::ModelValue;
use crate::passes::Passes;
use crate::program::{Limits, Program, Settings};
use crate::{Error, Result};

/// A loaded model. See [`run`](Self::run).
#[derive(Debug)]
pub struct Session {
    program: Arc<Program>,
    settings: Settings,
    device: Device,
}

/// What a session has compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// How often inputs came for which there was no plan.
    pub compiled: usize,
    /// Plans that are kept.
    pub stages: usize,
    /// Commands of all of them.
    pub commands: usize,
    /// Bytes that the largest of them takes for its temporary values in each run.
    pub largest_arena: usize,
    /// Bytes of the weights that they share.
    pub weight_bytes: usize,
}

/// Makes a [`Session`].
#[derive(Debug)]
pub struct SessionBuilder {
    device: Device,
    passes: Passes,
    limits: Limits,
}

impl SessionBuilder {
    /// Which passes are run.
    pub fn passes(mut self, passes: Passes) -> Self {
        self.passes = passes;
        self
    }

    /// What the model may use.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A session of a model.
    ///
    /// # Errors
    ///
    /// A CPU device, which constants are computed on, that cannot be opened.
    pub fn build(self, body: Body) -> Result<Session> {
        let settings = Settings {
            folder: Folder::new(&self.device, self.limits.tensor_bytes)?,
            passes: self.passes,
            stages: 64,
            timeout: Duration::from_secs(60),
            limits: self.limits,
        };
        Ok(Session { program: Arc::new(Program::new(body)), settings, device: self.device })
    }
}

impl Session {
    /// For sessions of a device.
    pub fn builder(device: &Device) -> SessionBuilder {
        SessionBuilder { device: *device, passes: Passes::default(), limits: Limits::default() }
    }

    /// The model.
    pub fn body(&self) -> &Body {
        self.program.body()
    }

    /// What was compiled so far.
    pub fn stats(&self) -> SessionStats {
        self.program.stats()
    }

    /// Runs the model.
    ///
    /// # Errors
    ///
    /// Inputs that the model does not take.
    pub fn run(&self, inputs: Vec<ModelValue>) -> Result<Vec<ModelValue>> {
        let ports = self.body().inputs();
        if inputs.len() != ports.len() {
            let reason = format!("{} inputs given, the model takes {}", inputs.len(), ports.len());
            return Err(Error::Invalid { op: "run", reason });
        }
        let stream = Stream::current_unleased(&self.device)?;
        self.program.run(&self.settings, &stream, inputs)
    }
}

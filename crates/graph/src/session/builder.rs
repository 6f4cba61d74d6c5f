//! Settings of a session.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::Device;

use super::batching::Batching;
use super::importer::Importer;
use super::joined::Joined;
use super::stats::LiveStats;
use super::{Inner, Session};
use crate::Result;
use crate::constant::Folder;
use crate::model::Body;
use crate::passes::Passes;
use crate::program::{Limits, Program, Settings};

/// Settings of a [`Session`].
///
/// ```no_run
/// # use millstream_graph::{Pass, Passes, Session};
/// # use millstream_core::{Device, Result};
/// # fn main() -> Result<()> {
/// let session = Session::builder(&Device::cpu()?)
///     .plans(16) // shapes that are kept compiled
///     .passes(Passes::all().without(Pass::Chains))
///     .open("model.onnx")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "settings do nothing until a model is opened with them"]
pub struct SessionBuilder {
    device: Device,
    passes: Passes,
    limits: Limits,
    plans: usize,
    compile_timeout: Duration,
    batching: Batching,
}

/// Sets of shapes that are kept compiled unless a session says otherwise.
const PLANS: usize = 256;

/// How long a call waits for another that compiles the same shapes.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(120);

impl SessionBuilder {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: *device,
            passes: Passes::all(),
            limits: Limits::default(),
            plans: PLANS,
            compile_timeout: COMPILE_TIMEOUT,
            batching: Batching::usual(device),
        }
    }

    /// How calls that come at the same time are joined. Unless set, they are joined on the CPU device, and run by themselves on GPUs.
    pub fn batching(mut self, batching: Batching) -> Self {
        self.batching = batching;
        self
    }

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

    /// For how many sets of input shapes plans are kept; at least one, 256 unless set. A further set takes the place of the
    /// one that was not used for longest. Where shapes follow from contents too (how many elements are not zero, how long speech will
    /// be), each of their sets counts.
    pub fn plans(mut self, plans: usize) -> Self {
        self.plans = plans;
        self
    }

    /// How long a call waits for another that compiles the same shapes; two minutes unless set.
    pub fn compile_timeout(mut self, time: Duration) -> Self {
        self.compile_timeout = time;
        self
    }

    /// Opens a model file.
    ///
    /// # Blocks when
    ///
    /// Always: it reads the file.
    ///
    /// # Errors
    ///
    /// As for [`Session::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Session> {
        let path = path.as_ref();
        let body = (Importer::of(path)?.read)(path)?;
        self.build(body)
    }

    /// A session of a model that an importer made.
    ///
    /// # Errors
    ///
    /// A CPU device, which constants are computed on, that cannot be opened.
    pub fn build(self, body: Body) -> Result<Session> {
        let names = body.outputs().iter().map(|port| port.name.clone()).collect();
        let settings = Settings {
            folder: Folder::new(&self.device, self.limits.tensor_bytes)?,
            passes: self.passes,
            stages: self.plans,
            clock: crate::recent_cache::clock(),
            timeout: self.compile_timeout,
            limits: self.limits,
        };
        let (program, settings) = (Arc::new(Program::new(body)), Arc::new(settings));
        let joined = |batching: Batching| Joined::new(&program, &settings, self.device, batching);
        let joined = self.batching.on.then(|| joined(self.batching.clone()));
        let (device, stats) = (self.device, LiveStats::new());
        Ok(Session(Arc::new(Inner { program, settings, device, stats, joined, names })))
    }
}

//! A model that any number of threads call.

mod batched;
mod batching;
mod bound;
mod builder;
mod call;
mod importer;
mod inputs;
mod joined;
mod outputs;
mod stats;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use millstream_core::{DType, Device};
use millstream_nn::Tensor;

use crate::model::{Body, Port};
use crate::model_value::ModelValue;
use crate::program::{HostValue, Program, Settings};
use crate::{Error, Result};

pub use batched::Batched;
pub use batching::Batching;
pub use builder::SessionBuilder;
pub use call::{Call, Submitted};
pub use importer::Importer;
pub use inputs::Inputs;
use joined::Joined;
pub use joined::{BatchingStats, Joinable};
pub use outputs::Outputs;
use stats::LiveStats;
pub use stats::{NodeTime, SessionStats};

/// A loaded model, called from any number of threads.
///
/// What a call computes is compiled once for the shapes of its inputs, and kept. Calls with shapes that were seen before
/// check their inputs, run a plan, and give tensors. These may not be finished yet: whoever reads them waits for them.
///
/// On the CPU device, calls that come at the same time are [joined](Batching) where it is proved that this changes no answer, and
/// where it is faster. A call that nobody else is with never waits for others.
///
/// # Thread safety
///
/// Any number of threads may call one session at once: nothing is locked while plans are run, and weights are there once. A
/// call with new shapes compiles them on its own thread; calls with the same new shapes wait for it, others do not. Clones
/// are the same session.
///
/// # Example
///
/// ```no_run
/// # use millstream_graph::Session;
/// # use millstream_core::{Device, Result};
/// # use millstream_nn::Tensor;
/// # fn main() -> Result<()> {
/// let device = Device::cpu()?;
/// let session = Session::open("model.onnx", &device)?;
/// let image = Tensor::zeros(&[1, 3, 224, 224], millstream_core::DType::F32, &device)?;
/// let outputs = session.run([("image", &image)])?;
/// println!("{}", outputs.tensor("scores")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    program: Arc<Program>,
    settings: Arc<Settings>,
    device: Device,
    stats: LiveStats,
    /// Joins calls, unless that is switched off.
    joined: Option<Joined>,
    /// The names of the outputs.
    names: Arc<[String]>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("device", &self.0.device.label())
            .field("inputs", &self.inputs().len())
            .field("outputs", &self.outputs().len())
            .field("operators", &self.body().nodes().len())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Opens a model file. Which kind of file it is follows from its extension: `.onnx`.
    ///
    /// # Blocks when
    ///
    /// Always: it reads the file. Weights are loaded when a call first needs them; [`warm_up`](Self::warm_up) does that
    /// ahead of time.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, that no importer knows, or that is not as it should be;
    /// [`Error::Operators`] with every operator that is not supported.
    pub fn open(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        Self::builder(device).open(path)
    }

    /// For a session with settings of its own.
    pub fn builder(device: &Device) -> SessionBuilder {
        SessionBuilder::new(device)
    }

    /// The model.
    pub fn body(&self) -> &Body {
        self.0.program.body()
    }

    /// The device that it runs on.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// What the model takes.
    pub fn inputs(&self) -> &[Port] {
        self.body().inputs()
    }

    /// What the model gives.
    pub fn outputs(&self) -> &[Port] {
        self.body().outputs()
    }

    /// What was compiled and called so far.
    pub fn stats(&self) -> SessionStats {
        self.0.stats.read(self.0.program.stats())
    }

    /// Calls the model. Inputs are given by name, as an array of pairs, or all in the order of [`inputs`](Self::inputs). Those that have a
    /// default in the model may be left out.
    ///
    /// # Blocks when
    ///
    /// The shapes are new and are compiled; the model needs contents that are not computed yet, such as the condition
    /// of a branch; or recording and allocating do, as for every tensor. From async code, use
    /// [`run_async`](Self::run_async).
    ///
    /// # Errors
    ///
    /// Inputs that the model does not take, with what it takes; a node that cannot be computed; no memory. What goes
    /// wrong on the device is reported by whoever reads an output.
    pub fn run(&self, inputs: impl Into<Inputs>) -> Result<Outputs> {
        self.run_with(inputs, &Call::new())
    }

    /// As [`run`](Self::run), for async code: no thread is parked while the device is busy or contents are awaited. Await
    /// [`Tensor::to_vec_async`] of an output for its numbers.
    ///
    /// New shapes are compiled within the call, on the thread that polls it; [`warm_up`](Self::warm_up) does that ahead of time.
    /// Dropping the future gives the call up. A call whose turn it is to run a batch for others does so when it is polled, so
    /// a future that is begun must be polled or dropped.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub async fn run_async(&self, inputs: impl Into<Inputs>) -> Result<Outputs> {
        self.run_async_with(inputs, &Call::new()).await
    }

    fn finish(&self, values: Vec<ModelValue>, started: stats::Started) -> Outputs {
        self.0.stats.end(started);
        Outputs::new(Arc::clone(&self.0.names), values)
    }

    /// Compiles the model for inputs of these shapes, alone and in batches, loads its weights, and runs it once on zeros, so that
    /// the first call with these shapes is like any other. Shapes of inputs that are declared with fixed sizes may be left out.
    ///
    /// Where shapes within the model follow from the contents of its inputs, only those that follow from zeros are compiled.
    ///
    /// # Blocks when
    ///
    /// Always, until the run is finished.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run), a shape that is missing, or what goes wrong on the device.
    pub fn warm_up(&self, shapes: &[(&str, &[usize])]) -> Result<()> {
        self.warm_up_with(self.zeros(shapes)?)
    }

    /// As [`warm_up`](Self::warm_up), with inputs such as these.
    ///
    /// # Blocks when
    ///
    /// Always, until the run is finished.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run), or what goes wrong on the device.
    pub fn warm_up_with(&self, inputs: impl Into<Inputs>) -> Result<()> {
        let inputs = inputs.into();
        let group = self.group(&inputs)?;
        let outputs = self.run(inputs)?;
        outputs.wait()?;
        if let Some(group) = group {
            group.warm_up();
        }
        Ok(())
    }

    /// Whether concurrent calls with inputs of these shapes can be run as one, and if not, why. Shapes of inputs that are declared
    /// with fixed sizes may be left out.
    ///
    /// # Blocks when
    ///
    /// Always: the model is compiled for it, and nothing is run.
    ///
    /// # Errors
    ///
    /// A shape that is missing, or that the model does not take.
    pub fn joinable(&self, shapes: &[(&str, &[usize])]) -> Result<Joinable> {
        self.joinable_with(self.zeros(shapes)?)
    }

    /// As [`joinable`](Self::joinable), for inputs such as these.
    ///
    /// # Blocks when
    ///
    /// Always: the model is compiled for it, and nothing is run.
    ///
    /// # Errors
    ///
    /// Inputs that the model does not take.
    pub fn joinable_with(&self, inputs: impl Into<Inputs>) -> Result<Joinable> {
        Ok(match self.group(&inputs.into())? {
            Some(group) => group.joinable(),
            None if self.0.joined.is_none() => {
                Joinable::No { node: None, reason: "it is switched off".into() }
            }
            None => Joinable::No { node: None, reason: "an input is no tensor of numbers".into() },
        })
    }

    /// The group of calls with such inputs.
    fn group(&self, inputs: &Inputs) -> Result<Option<Arc<joined::Group>>> {
        let values = inputs.clone().arranged(self.inputs(), &self.0.device)?;
        Ok(self.0.joined.as_ref().and_then(|joined| joined.group(&values)))
    }

    /// How calls were joined so far.
    pub fn batching_stats(&self) -> BatchingStats {
        self.0.joined.as_ref().map(Joined::stats).unwrap_or_default()
    }

    /// Inputs of zeros of these shapes.
    fn zeros(&self, shapes: &[(&str, &[usize])]) -> Result<Inputs> {
        let unknown =
            shapes.iter().find(|(name, _)| self.inputs().iter().all(|port| port.name != *name));
        if let Some((name, _)) = unknown {
            return Err(inputs::unknown(name, self.inputs()));
        }
        let mut given = Vec::new();
        for port in self.inputs() {
            let shape = shapes.iter().find(|(name, _)| *name == port.name).map(|(_, shape)| *shape);
            let (dtype, declared) = match port.declared.tensor() {
                Some(declared) => declared,
                None if port.default.is_some() && shape.is_none() => continue,
                None => (DType::F32, None),
            };
            let shape = match shape.map(<[usize]>::to_vec).or(declared) {
                Some(shape) => shape,
                None if port.default.is_some() => continue,
                None => {
                    let reason = format!(
                        "the shape of input {:?}, which is {}, is missing",
                        port.name, port.declared
                    );
                    return Err(Error::Invalid { op: "warm_up", reason });
                }
            };
            let zeros = Tensor::zeros(&shape, dtype, &self.0.device)?;
            given.push((port.name.clone(), zeros));
        }
        Ok(Inputs::from(given))
    }

    /// Runs the model once with the device's profiler on, and says how long each node took, the longest first. Other
    /// work of the device at the same time is counted too, if it belongs to a node of the same name.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run), or what goes wrong on the device.
    pub fn profile(&self, inputs: impl Into<Inputs>) -> Result<Vec<NodeTime>> {
        stats::profile(self, inputs.into())
    }
}

impl HostValue {
    /// An input that the caller left out.
    fn of_default(port: &Port) -> Option<Self> {
        port.default.clone().map(HostValue::Constant)
    }
}

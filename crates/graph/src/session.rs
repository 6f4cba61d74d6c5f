//! A model that any number of threads call.

mod bound;
mod builder;
mod importer;
mod inputs;
mod outputs;
mod stats;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use millstream_core::{DType, Device, Stream};
use millstream_nn::Tensor;

use crate::model::{Body, Port};
use crate::model_value::ModelValue;
use crate::program::{HostValue, Program, Run, Settings, Step};
use crate::{Error, Result};

pub use builder::SessionBuilder;
pub use importer::Importer;
pub use inputs::Inputs;
pub use outputs::Outputs;
use stats::LiveStats;
pub use stats::{NodeTime, SessionStats};

/// A loaded model, called from any number of threads.
///
/// What a call computes is compiled once for the shapes of its inputs, and kept. Calls with shapes that were seen before
/// check their inputs, run a plan, and give tensors. These are not finished yet: whoever reads them waits for them.
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
    settings: Settings,
    device: Device,
    stats: LiveStats,
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
        let started = self.0.stats.begin();
        let mut run = self.begin(inputs.into())?;
        loop {
            match run.go_on(&self.0.settings, &Stream::current_unleased(&self.0.device)?)? {
                Step::Wait(downloads) => {
                    downloads.iter().try_for_each(|download| download.timepoint().wait())?;
                }
                Step::Done(values) => return Ok(self.finish(values, started)),
            }
        }
    }

    /// As [`run`](Self::run), for async code: no thread is parked while the device is busy or contents are awaited. Await
    /// [`Tensor::to_vec_async`] of an output for its numbers.
    ///
    /// New shapes are compiled within the call, on the thread that polls it; [`warm_up`](Self::warm_up) does that ahead of time.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub async fn run_async(&self, inputs: impl Into<Inputs>) -> Result<Outputs> {
        let started = self.0.stats.begin();
        let mut run = self.begin(inputs.into())?;
        loop {
            self.0.device.ready().await?;
            // A task may be on another thread after each wait, and that has another stream.
            let step = run.go_on(&self.0.settings, &Stream::current_unleased(&self.0.device)?)?;
            match step {
                Step::Wait(downloads) => {
                    for download in downloads {
                        download.timepoint().await?;
                    }
                }
                Step::Done(values) => return Ok(self.finish(values, started)),
            }
        }
    }

    fn begin(&self, inputs: Inputs) -> Result<Run> {
        let values = inputs.arranged(self.inputs(), &self.0.device)?;
        Ok(Run::new(&self.0.program, values))
    }

    fn finish(&self, values: Vec<ModelValue>, started: stats::Started) -> Outputs {
        self.0.stats.end(started);
        Outputs::new(Arc::clone(&self.0.names), values)
    }

    /// Compiles the model for inputs of these shapes, loads its weights, and runs it once on zeros, so that the first call
    /// with these shapes is like any other. Shapes of inputs that are declared with fixed sizes may be left out.
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
        let inputs = self.zeros(shapes)?;
        let outputs = self.run(inputs)?;
        outputs.wait()
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
            given.push((port.name.clone(), ModelValue::Tensor(zeros)));
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

//! Modules whose concurrent calls become batches.

use std::fmt;
use std::sync::{Arc, OnceLock};

use millstream_nn::{Module, Tensor};

use super::{Batching, Call, Joinable, Outputs, Session, Submitted};
use crate::model::Body;
use crate::{Error, Result};

/// A module of `nn` that any number of threads call, and whose calls that come at the same time are run as one.
///
/// It is a [`Session`] of the module's trace: the first input says for which device and element type, and every set of shapes is
/// traced and compiled once. Calls are joined where it is proved that no answer depends on the others, and where that is
/// measured to be faster ([`Batching`]); here this is so on GPUs too. Other calls run by themselves.
///
/// # Thread safety
///
/// As for a [`Session`].
///
/// # Example
///
/// ```
/// use millstream_core::{DType, Device};
/// use millstream_graph::Batched;
/// use millstream_nn::{Linear, Module, Tensor, Weights};
/// # use millstream_cpu as _;
///
/// let device = Device::cpu()?;
/// let layer = Linear::new(4, 2, true, &Weights::random(1, DType::F32, &device))?;
/// let layer = Batched::new(layer);
/// std::thread::scope(|scope| {
///     let calls: Vec<_> = (0..8)
///         .map(|_| {
///             scope.spawn(|| {
///                 let input = Tensor::ones(&[1, 4], DType::F32, &device)?;
///                 layer.run(&input)?.to_vec::<f32>()
///             })
///         })
///         .collect();
///     let alone = Tensor::ones(&[1, 4], DType::F32, &device)?;
///     let alone = layer.module().forward(&alone)?.to_vec::<f32>()?;
///     for call in calls {
///         assert_eq!(call.join().expect("no thread panics")?, alone);
///     }
///     Ok::<(), millstream_core::Error>(())
/// })?;
/// # Ok::<(), millstream_core::Error>(())
/// ```
pub struct Batched<M> {
    module: Arc<M>,
    batching: Batching,
    session: OnceLock<Session>,
}

impl<M> fmt::Debug for Batched<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched")
            .field("batching", &self.batching)
            .field("session", &self.session.get())
            .finish_non_exhaustive()
    }
}

impl<M: Module + 'static> Batched<M> {
    /// Joins concurrent calls of a module where that changes no answer and is faster.
    pub fn new(module: M) -> Self {
        Self::with(module, Batching::new())
    }

    /// The same with other settings.
    pub fn with(module: M, batching: Batching) -> Self {
        Self { module: Arc::new(module), batching, session: OnceLock::new() }
    }

    /// The module.
    pub fn module(&self) -> &M {
        &self.module
    }

    /// The session that runs the module, with its figures; none before the first call.
    pub fn session(&self) -> Option<&Session> {
        self.session.get()
    }

    fn session_for(&self, input: &Tensor) -> Result<&Session> {
        if self.session.get().is_none() {
            let body = Body::of_module(Arc::clone(&self.module), input.dtype());
            let builder = Session::builder(&input.device()).batching(self.batching.clone());
            // Where two threads come first, both build one, and one of the two is kept.
            let _ = self.session.set(builder.build(body)?);
        }
        let none = || Error::Invalid { op: "run", reason: "the session is missing".into() };
        self.session.get().ok_or_else(none)
    }

    /// Applies the module.
    ///
    /// # Blocks when
    ///
    /// Always, until the result is computed.
    ///
    /// # Errors
    ///
    /// An input that the module does not take, or that is of another type or on another device than the first one was; what the
    /// module does and cannot be traced ([`Graph::trace`](crate::Graph::trace)); no memory; what goes wrong on the
    /// device.
    pub fn run(&self, input: &Tensor) -> Result<Tensor> {
        let outputs = self.session_for(input)?.run([input])?;
        // A call by itself counts as one that others meet until its outputs are dropped.
        if outputs.is_alone() {
            outputs.wait()?;
        }
        result(outputs)
    }

    /// As [`run`](Self::run), for async code: no thread is parked while the device is busy. As for [`Session::run_async`], a future
    /// that was polled must be polled again or dropped, or those behind it wait.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub async fn run_async(&self, input: &Tensor) -> Result<Tensor> {
        let outputs = self.session_for(input)?.run_async([input]).await?;
        if outputs.is_alone() {
            outputs.ready().await?;
        }
        result(outputs)
    }

    /// Begins a call that is [polled](Submitted::poll) for its outputs, of which there is one: `output`.
    ///
    /// # Errors
    ///
    /// Settings with which no session can be built. What else goes wrong is found when the call is polled.
    pub fn submit(&self, input: &Tensor, call: &Call) -> Result<Submitted> {
        Ok(self.session_for(input)?.submit([input], call))
    }

    /// Traces, proves and compiles for inputs such as this one, alone and in batches, and runs the module once.
    ///
    /// # Blocks when
    ///
    /// Always, until the run is finished.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub fn warm_up(&self, input: &Tensor) -> Result<()> {
        self.session_for(input)?.warm_up_with([input])
    }

    /// Whether concurrent calls with inputs such as this one can be run as one, and if not, why.
    ///
    /// # Blocks when
    ///
    /// Always: the module is traced and compiled for it, and nothing is run.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    pub fn joinable(&self, input: &Tensor) -> Result<Joinable> {
        self.session_for(input)?.joinable_with([input])
    }
}

fn result(outputs: Outputs) -> Result<Tensor> {
    outputs.tensor("output").cloned()
}

#[cfg(test)]
mod tests;

//! Outputs in memory that the caller keeps.

use millstream_core::{BufferLike, Command, Stream, TensorSpec};
use millstream_nn::Tensor;

use super::{Inputs, Outputs, Session};
use crate::model_value::ModelValue;
use crate::program::{Run, Step};
use crate::{Error, Result};

fn invalid<T>(reason: String) -> Result<T> {
    Err(Error::Invalid { op: "run_into", reason })
}

impl Session {
    /// As [`run`](Self::run), with outputs written to memory that the caller keeps: tensors by the names of outputs. The same
    /// tensors are among the [`Outputs`]; other outputs get memory of their own, as always.
    ///
    /// Such a call is not joined with others. What was in such a tensor is gone, also for its clones and views, and what others record with it on their streams is ordered as for
    /// any memory. No memory is allocated for it, and where a plan makes the output, it is written there in the first place.
    ///
    /// ```
    /// # use millstream_core::{DType, Device};
    /// # use millstream_graph::{Session, ValueType};
    /// # use millstream_nn::Tensor;
    /// # use millstream_cpu as _;
    /// # let device = Device::cpu()?;
    /// # let row = [("x", ValueType::Tensor(DType::F32, None))];
    /// # let session = Session::builder(&device).trace(&row, &["y"], |inputs| Ok(vec![inputs[0].exp()?]))?;
    /// # let x = Tensor::zeros(&[3], DType::F32, &device)?;
    /// let y = Tensor::zeros(&[3], DType::F32, &device)?;
    /// for _ in 0..10 {
    ///     session.run_into([("x", &x)], &[("y", &y)])?;
    ///     println!("{:?}", y.to_vec::<f32>()?);
    /// }
    /// # assert_eq!(y.to_vec::<f32>()?, [1.0; 3]);
    /// # Ok::<(), millstream_core::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run). A name that the model does not have or that is given twice; a tensor that is settled, not
    /// contiguous or on another device; an output of another element type or shape, or that is no tensor: other outputs may
    /// have been written by then.
    pub fn run_into(
        &self,
        inputs: impl Into<Inputs>,
        outputs: &[(&str, &Tensor)],
    ) -> Result<Outputs> {
        let started = self.0.stats.begin();
        let bound = self.bound(outputs)?;
        let values = inputs.into().arranged(self.inputs(), &self.0.device)?;
        let mut run = Run::new(&self.0.program, values);
        run.bind(bound.clone());
        loop {
            let stream = Stream::current_unleased(&self.0.device)?;
            match run.go_on(&self.0.settings, &stream)? {
                Step::Wait(downloads) => {
                    downloads.iter().try_for_each(|download| download.timepoint().wait())?;
                }
                Step::Done(mut values) => {
                    self.bring(&stream, &bound, &mut values)?;
                    return Ok(self.finish(values, started));
                }
            }
        }
    }

    /// For each output of the model the tensor that it is written to.
    fn bound(&self, outputs: &[(&str, &Tensor)]) -> Result<Vec<Option<Tensor>>> {
        let mut bound = vec![None; self.outputs().len()];
        for (name, tensor) in outputs {
            let Some(at) = self.outputs().iter().position(|port| port.name == *name) else {
                let names: Vec<&str> = self.outputs().iter().map(|port| &port.name[..]).collect();
                return invalid(format!("there is no output {name:?}: there are {names:?}"));
            };
            if tensor.device() != self.0.device {
                let (there, here) = (tensor.device().label(), self.0.device.label());
                return invalid(format!(
                    "the tensor for {name:?} is on {there}, the session runs on {here}"
                ));
            }
            if !tensor.is_contiguous() || tensor.buffer().is_settled() {
                let spec = TensorSpec::of(tensor.layout());
                return invalid(format!(
                    "the tensor for {name:?}, {spec}, must be contiguous and not settled"
                ));
            }
            let shares = |other: &Tensor| has_same_memory(other, tensor);
            if bound[at].is_some() || bound.iter().flatten().any(shares) {
                return invalid(format!("the tensor for {name:?} is given twice"));
            }
            bound[at] = Some((*tensor).clone());
        }
        Ok(bound)
    }

    /// Brings outputs to their tensors, if they were not written there.
    fn bring(
        &self,
        stream: &Stream,
        bound: &[Option<Tensor>],
        values: &mut [ModelValue],
    ) -> Result<()> {
        for (output, (value, place)) in values.iter_mut().zip(bound).enumerate() {
            let name = || &self.outputs()[output].name;
            let made = match (value, place) {
                (ModelValue::Tensor(made), _) => made,
                (_, None) => continue,
                (other, Some(_)) => {
                    return invalid(format!(
                        "output {:?} is {}, not a tensor",
                        name(),
                        other.kind()
                    ));
                }
            };
            if let Some(place) = place {
                let (found, wanted) =
                    (TensorSpec::of(made.layout()), TensorSpec::of(place.layout()));
                if found != wanted {
                    return invalid(format!(
                        "output {:?} is {found}, its tensor is {wanted}",
                        name()
                    ));
                }
                if is_same(made, place) {
                    continue;
                }
            }
            // What the model passes on may lie where an output goes. It is read before anything is written there.
            if bound.iter().flatten().any(|place| has_same_memory(made, place)) {
                *made = made.copy()?;
            }
        }
        for (value, place) in values.iter_mut().zip(bound) {
            let (ModelValue::Tensor(made), Some(place)) = (value, place) else { continue };
            if !is_same(made, place) {
                let to = place.buffer().operand(*place.layout());
                let from = made.buffer().operand(*made.layout());
                stream.record(Command::copy(to, from)?)?;
            }
            *made = place.clone();
        }
        Ok(())
    }
}

/// Whether two tensors are the same elements, in the same order.
fn is_same(one: &Tensor, other: &Tensor) -> bool {
    has_same_memory(one, other) && one.layout() == other.layout()
}

fn has_same_memory(one: &Tensor, other: &Tensor) -> bool {
    one.buffer().identity() == other.buffer().identity()
}

//! Giving tensors to layers, and noting what does not fit.

use std::collections::HashSet;
use std::sync::Mutex;

use millstream_core::DType;

use super::{Init, Source, WeightProblem, Weights};
use crate::{Error, Result, Tensor};

/// What happened while a model is loaded.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<Option<Found>>);

#[derive(Debug, Default)]
struct Found {
    asked: HashSet<String>,
    problems: Vec<WeightProblem>,
}

impl Notes {
    /// Runs `note` if the model is still being loaded.
    fn with<R>(&self, note: impl FnOnce(&mut Found) -> R) -> Option<R> {
        let mut found = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        found.as_mut().map(note)
    }
}

impl Weights {
    /// Builds a model, and reports everything that does not fit in one error: tensors that are missing,
    /// have another shape, or are left over.
    ///
    /// While `build` runs, a tensor that is missing is stood in for by zeros, so that it gets to the end.
    /// The model is given out only if there was none.
    ///
    /// # Errors
    ///
    /// [`Error::Weights`] with every problem, or the error of `build`.
    pub fn load<M>(&self, build: impl FnOnce(&Weights) -> Result<M>) -> Result<M> {
        self.load_checked(build, true)
    }

    /// As [`load`](Self::load), for a model that uses a part of what is there.
    ///
    /// # Errors
    ///
    /// As there, less what is left over.
    pub fn load_part<M>(&self, build: impl FnOnce(&Weights) -> Result<M>) -> Result<M> {
        self.load_checked(build, false)
    }

    fn load_checked<M>(&self, build: impl FnOnce(&Weights) -> Result<M>, whole: bool) -> Result<M> {
        let notes = std::sync::Arc::new(Notes(Mutex::new(Some(Found::default()))));
        let model = build(&Weights { notes: Some(notes.clone()), ..self.clone() });
        let taken = notes.0.lock().unwrap_or_else(|broken| broken.into_inner()).take();
        let Found { asked, mut problems } = taken.unwrap_or_default();
        // A model that was not finished has not asked for everything.
        if whole && model.is_ok() {
            let unexpected = self.names().into_iter().filter(|name| !asked.contains(name));
            problems.extend(unexpected.map(|name| WeightProblem::Unexpected { name }));
        }
        if problems.is_empty() { model } else { Err(Error::Weights { problems }) }
    }

    /// A tensor by its name below here, of the shape that a layer needs; where weights are random, as
    /// `init` says. It is complete and settled.
    ///
    /// # Errors
    ///
    /// A tensor that is missing or of another shape (while a model is loaded these are noted instead, and
    /// zeros are given), a file that broke, or no memory.
    pub fn get(&self, name: &str, shape: &[usize], init: Init) -> Result<Tensor> {
        self.fetch(name, shape, init)?.settle()
    }

    /// As [`get`](Self::get), for those who make something else of it first.
    pub(crate) fn fetch(&self, name: &str, shape: &[usize], init: Init) -> Result<Tensor> {
        let full = self.full_name(name);
        if let Some(notes) = &self.notes {
            notes.with(|found| found.asked.insert(full.clone()));
        }
        match self.find(&full, shape, init)? {
            Ok(tensor) if tensor.dtype().is_float() => {
                tensor.to_dtype(self.dtype.unwrap_or(tensor.dtype()))
            }
            Ok(tensor) => Ok(tensor),
            Err(problem) => {
                let noted = self
                    .notes
                    .as_ref()
                    .and_then(|notes| notes.with(|found| found.problems.push(problem.clone())));
                match noted {
                    Some(()) => {
                        Tensor::zeros(shape, self.dtype.unwrap_or(DType::F32), &self.device)
                    }
                    None => Err(Error::Weights { problems: vec![problem] }),
                }
            }
        }
    }

    /// Says that a tensor may be there which the model has no use for.
    pub(crate) fn ignore(&self, name: &str) {
        if let Some(notes) = &self.notes {
            notes.with(|found| found.asked.insert(self.full_name(name)));
        }
    }

    fn find(
        &self,
        name: &str,
        shape: &[usize],
        init: Init,
    ) -> Result<Result<Tensor, WeightProblem>> {
        let missing = || WeightProblem::Missing { name: name.into(), shape: shape.into() };
        let misfit = |found: &[usize]| WeightProblem::Shape {
            name: name.into(),
            expected: shape.into(),
            found: found.into(),
        };
        Ok(match &*self.source {
            Source::Random { seed, dtype } => {
                Ok(init.make(name, shape, *seed, *dtype, &self.device)?)
            }
            Source::Tensors(tensors) => match tensors.get(name) {
                None => Err(missing()),
                Some(tensor) if tensor.shape() != shape => Err(misfit(tensor.shape())),
                Some(tensor) => Ok(tensor.to_device(&self.device)?),
            },
            Source::Files(shards) => match shards.find(name) {
                None => Err(missing()),
                Some((_, entry)) if entry.shape != shape => Err(misfit(&entry.shape)),
                Some((file, entry)) => match entry.dtype {
                    Ok(dtype) => {
                        let bytes = crate::bytes::from_file(file.data(entry), dtype, false);
                        Ok(Tensor::from_bytes(&bytes, shape, dtype, &self.device)?)
                    }
                    Err(ref found) => {
                        Err(WeightProblem::Type { name: name.into(), found: found.clone() })
                    }
                },
            },
        })
    }
}

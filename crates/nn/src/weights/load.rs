//! Giving tensors to layers, and noting what does not fit.

use std::collections::HashSet;
use std::sync::Mutex;

use millstream_core::DType;

use super::header::TYPES;
use super::{Init, Source, Weights};
use crate::{Error, Result, Tensor, WeightProblem};

/// Problems that are collected; a model that has more is not built to its end.
const MAX_PROBLEMS: usize = 1 << 14;

/// What was asked for and what did not fit while a model is loaded.
#[derive(Debug, Default)]
pub(super) struct LoadReport(Mutex<Option<Findings>>);

#[derive(Debug, Default)]
struct Findings {
    asked: HashSet<String>,
    problems: Vec<WeightProblem>,
}

impl LoadReport {
    /// Runs `note` if the model is still being loaded.
    fn with<R>(&self, note: impl FnOnce(&mut Findings) -> R) -> Option<R> {
        let mut found = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        found.as_mut().map(note)
    }
}

impl Weights {
    /// Builds a model, and reports everything that does not fit in one error: tensors that are missing,
    /// have another shape, or are left over.
    ///
    /// While `build` runs, a tensor that is missing, and every one asked for after it, is stood in for by zeros, so
    /// that it gets to the end. These zeros are one element, repeated by strides of 0: they take no memory, however
    /// large the shape, and layers make nothing of them. The model is given out only if there was none.
    ///
    /// # Blocks when
    ///
    /// Always: it waits until all weights are on the device.
    ///
    /// # Errors
    ///
    /// [`Error::Weights`] with every problem, or the error of `build`.
    pub fn load<M>(&self, build: impl FnOnce(&Weights) -> Result<M>) -> Result<M> {
        self.load_checked(build, true)
    }

    /// As [`load`](Self::load), for a model that uses a part of what is there.
    ///
    /// # Blocks when
    ///
    /// As for [`load`](Self::load).
    ///
    /// # Errors
    ///
    /// As there, less what is left over.
    pub fn load_part<M>(&self, build: impl FnOnce(&Weights) -> Result<M>) -> Result<M> {
        self.load_checked(build, false)
    }

    fn load_checked<M>(&self, build: impl FnOnce(&Weights) -> Result<M>, whole: bool) -> Result<M> {
        let report = std::sync::Arc::new(LoadReport(Mutex::new(Some(Findings::default()))));
        let model = build(&Weights { report: Some(report.clone()), ..self.clone() });
        let taken = report.0.lock().unwrap_or_else(|broken| broken.into_inner()).take();
        let Findings { asked, mut problems } = taken.unwrap_or_default();
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

    /// A tensor by its name below here, with the shape that it has. It is complete and settled.
    ///
    /// # Errors
    ///
    /// A tensor that is missing (of random weights all are: they have no shape of their own), a file that broke, or
    /// no memory.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        // What is missing is found, and named, by `get`.
        let shape = self.shape_of(name).unwrap_or_default();
        if matches!(&*self.source, Source::Random { .. }) {
            let problem = WeightProblem::Missing { name: self.full_name(name), shape };
            return Err(Error::Weights { problems: vec![problem] });
        }
        self.get(name, &shape, Init::Zeros)
    }

    /// As [`get`](Self::get), for those who make something else of it first.
    pub(crate) fn fetch(&self, name: &str, shape: &[usize], init: Init) -> Result<Tensor> {
        let full = self.full_name(name);
        if let Some(report) = &self.report {
            report.with(|found| found.asked.insert(full.clone()));
        }
        let problem = self.problem(&full, shape);
        if let Some(problem) = &problem
            && !self.note(problem)
        {
            return Err(Error::Weights { problems: vec![problem.clone()] });
        }
        if self.has_problems() {
            return self.stand_in(shape);
        }
        let tensor = self.take(&full, shape, init)?;
        match self.dtype {
            Some(dtype) if tensor.dtype().is_float() => tensor.to_dtype(dtype),
            _ => Ok(tensor),
        }
    }

    /// Adds a problem to the report. False if there is no report, or it is full.
    fn note(&self, problem: &WeightProblem) -> bool {
        let push = |found: &mut Findings| {
            let room = found.problems.len() < MAX_PROBLEMS;
            found.problems.extend(room.then(|| problem.clone()));
            room
        };
        self.report.as_ref().and_then(|report| report.with(push)) == Some(true)
    }

    /// Whether a model is being built that will not be given out, since something did not fit.
    pub(crate) fn has_problems(&self) -> bool {
        let report = self.report.as_ref();
        report.and_then(|report| report.with(|found| !found.problems.is_empty())) == Some(true)
    }

    /// Zeros of which there is one: what a model that will not be given out is built of takes no memory.
    fn stand_in(&self, shape: &[usize]) -> Result<Tensor> {
        let dtype = self.dtype.unwrap_or(DType::F32);
        Tensor::zeros(&[], dtype, &self.device)?.broadcast_to(shape)
    }

    /// What a layer makes of tensors that it fetched; a stand-in, which takes no memory, if something did not fit.
    pub(crate) fn derived(
        &self,
        shape: &[usize],
        make: impl FnOnce() -> Result<Tensor>,
    ) -> Result<Tensor> {
        if self.has_problems() { self.stand_in(shape) } else { make() }
    }

    /// Says that a tensor may be there which the model has no use for.
    pub(crate) fn ignore(&self, name: &str) {
        if let Some(report) = &self.report {
            report.with(|found| found.asked.insert(self.full_name(name)));
        }
    }

    /// What keeps a tensor from being taken.
    fn problem(&self, name: &str, shape: &[usize]) -> Option<WeightProblem> {
        let there = match &*self.source {
            Source::Random { .. } => return None,
            Source::Tensors(tensors) => tensors.get(name).map(|tensor| (tensor.shape(), None)),
            Source::Files(shards) => {
                shards.find(name).map(|(_, entry)| (&entry.shape[..], entry.dtype.as_ref().err()))
            }
        };
        match there {
            None => Some(WeightProblem::Missing { name: name.into(), shape: shape.into() }),
            Some((found, _)) if found != shape => Some(WeightProblem::Shape {
                name: name.into(),
                expected: shape.into(),
                found: found.into(),
            }),
            Some((_, Some(found))) => Some(WeightProblem::Type {
                name: name.into(),
                found: found.clone(),
                known: TYPES.map(|(name, _)| name).into(),
            }),
            Some((_, None)) => None,
        }
    }

    /// A tensor that has no [`problem`](Self::problem).
    fn take(&self, name: &str, shape: &[usize], init: Init) -> Result<Tensor> {
        let missing = || {
            let problem = WeightProblem::Missing { name: name.into(), shape: shape.into() };
            Error::Weights { problems: vec![problem] }
        };
        match &*self.source {
            Source::Random { seed, dtype } => init.make(name, shape, *seed, *dtype, &self.device),
            Source::Tensors(tensors) => {
                tensors.get(name).ok_or_else(missing)?.to_device(&self.device)
            }
            Source::Files(shards) => {
                let (file, entry) = shards.find(name).ok_or_else(missing)?;
                let dtype = *entry.dtype.as_ref().map_err(|_| missing())?;
                let bytes = crate::bytes::from_file(file.data(entry), dtype, false)?;
                Tensor::from_bytes(&bytes, shape, dtype, &self.device)
            }
        }
    }
}

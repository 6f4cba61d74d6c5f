//! Handing tensors to layers, and collecting problems.

use std::collections::HashSet;
use std::sync::Mutex;

use millstream_core::DType;

use super::header::TYPES;
use super::{Init, Source, Weights};
use crate::{Error, Result, Tensor, WeightProblem};

/// The most problems that are collected. A model with more is not built to its end.
const MAX_PROBLEMS: usize = 1 << 14;

/// The type that a layer needs.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Any,
    /// A floating-point type that is computed with.
    Float,
    /// The type of another tensor.
    Like(&'a str),
}

/// The tensors that were asked for and the problems, while a model is loaded.
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
    /// Builds a model, and reports all problems in one error: tensors that are missing, have another shape, or are
    /// left over.
    ///
    /// After the first problem, `build` gets zeros in place of every tensor, so that it runs to its end and all
    /// problems are found. These zeros are one element, repeated by strides of 0: they take no memory, however large
    /// the shape, and layers do not pack them. The model is returned only if there was no problem.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::{Linear, Weights};
    /// use millstream::{Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let tensors = [("fc.weight".to_owned(), Tensor::new(&[[1.0f32, 2.0]], &device)?)];
    /// let weights = Weights::from_tensors(tensors.into(), &device);
    /// let layer = weights.load(|weights| Linear::new(2, 1, false, &weights.child("fc")))?;
    /// # let _ = layer;
    /// // Everything that does not fit is in one error.
    /// let error = weights.load(|weights| Linear::new(3, 1, true, &weights.child("fc"))).unwrap_err();
    /// assert!(error.to_string().contains("fc.bias") && error.to_string().contains("fc.weight"));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// Always: it waits until all weights are on the device.
    ///
    /// # Errors
    ///
    /// [`Error::Weights`] with every problem, or the error of `build`.
    #[doc(alias = "load_state_dict")]
    pub fn load<M>(&self, build: impl FnOnce(&Weights) -> Result<M>) -> Result<M> {
        self.load_checked(build, true)
    }

    /// As [`load`](Self::load), for a model that uses only a part of the weights.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::{Linear, Weights};
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let tensor = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &device);
    /// let tensors = [("encoder.weight".into(), tensor(&[4, 2])?), ("decoder.weight".into(), tensor(&[2, 4])?)];
    /// let weights = Weights::from_tensors(tensors.into(), &device);
    /// let encoder = weights.load_part(|weights| Linear::new(2, 4, false, &weights.child("encoder")))?;
    /// # let _ = encoder;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// As for [`load`](Self::load).
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load), except that tensors may be left over.
    pub fn load_part<M>(&self, build: impl FnOnce(&Weights) -> Result<M>) -> Result<M> {
        self.load_checked(build, false)
    }

    fn load_checked<M>(&self, build: impl FnOnce(&Weights) -> Result<M>, whole: bool) -> Result<M> {
        let report = std::sync::Arc::new(LoadReport(Mutex::new(Some(Findings::default()))));
        let model = build(&Weights { report: Some(report.clone()), ..self.clone() });
        let taken = report.0.lock().unwrap_or_else(|broken| broken.into_inner()).take();
        let Findings { asked, mut problems } = taken.unwrap_or_default();
        // If the model was not finished, it has not asked for everything.
        if whole && model.is_ok() {
            let unexpected = self.names().into_iter().filter(|name| !asked.contains(name));
            problems.extend(unexpected.map(|name| WeightProblem::Unexpected { name }));
        }
        if problems.is_empty() {
            return model;
        }
        if let Some(prefix) = self.prefix_problem(&problems) {
            problems.insert(0, prefix);
        }
        Err(Error::Weights { problems })
    }

    /// A tensor by its name below this path, of the shape that a layer needs. Random weights are made as `init` says.
    /// The tensor is complete and settled.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::{Init, Weights};
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let tensors = [("scale".to_owned(), Tensor::ones(&[8], DType::F32, &device)?)];
    /// let scale = Weights::from_tensors(tensors.into(), &device).get("scale", &[8], Init::Ones)?;
    /// assert_eq!(scale.shape(), [8]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A tensor that is missing or has another shape, a file that is broken, or no memory. While a model is loaded,
    /// missing tensors and other shapes are collected instead, and zeros are returned.
    pub fn get(&self, name: &str, shape: &[usize], init: Init) -> Result<Tensor> {
        self.fetch_as(name, shape, init, Wanted::Any)?.settle()
    }

    /// A tensor by its name below this path, with its own shape. It is complete and settled.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::Weights;
    /// use millstream::{Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let tensors = [("fc.bias".to_owned(), Tensor::new(&[1.0f32, 2.0], &device)?)];
    /// let weights = Weights::from_tensors(tensors.into(), &device); // or Weights::open(…)
    /// assert_eq!(weights.tensor("fc.bias")?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A tensor that is missing (random weights have no shapes of their own, so all are missing), a file that is
    /// broken, or no memory.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        // If it is missing, `get` finds that and names it.
        let shape = self.shape_of(name).unwrap_or_default();
        if matches!(&*self.source, Source::Random { .. }) {
            let problem = WeightProblem::Missing { name: self.full_name(name), shape };
            return Err(Error::Weights { problems: vec![problem] });
        }
        self.get(name, &shape, Init::Zeros)
    }

    /// A floating-point parameter of a layer. It is not settled yet.
    pub(crate) fn parameter(&self, name: &str, shape: &[usize], init: Init) -> Result<Tensor> {
        self.fetch_as(name, shape, init, Wanted::Float)
    }

    /// A parameter with the type of another parameter of the same layer.
    pub(crate) fn parameter_like(
        &self,
        other: &str,
        name: &str,
        shape: &[usize],
        init: Init,
    ) -> Result<Tensor> {
        self.fetch_as(name, shape, init, Wanted::Like(other))
    }

    fn fetch_as(&self, name: &str, shape: &[usize], init: Init, wanted: Wanted) -> Result<Tensor> {
        let full = self.full_name(name);
        if let Some(report) = &self.report {
            report.with(|found| found.asked.insert(full.clone()));
        }
        let problem = self.problem(&full, shape).or_else(|| self.type_problem(&full, wanted));
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

    /// Whether there was a problem, so that the model that is being built will not be returned.
    pub(crate) fn has_problems(&self) -> bool {
        let report = self.report.as_ref();
        report.and_then(|report| report.with(|found| !found.problems.is_empty())) == Some(true)
    }

    /// Zeros that are one element in memory, for a model that will not be returned.
    fn stand_in(&self, shape: &[usize]) -> Result<Tensor> {
        let dtype = self.dtype.unwrap_or(DType::F32);
        Tensor::zeros(&[], dtype, &self.device)?.broadcast_to(shape)
    }

    /// A tensor that a layer computes from its parameters. After a problem it is a stand-in, which takes no memory.
    pub(crate) fn derived(
        &self,
        shape: &[usize],
        make: impl FnOnce() -> Result<Tensor>,
    ) -> Result<Tensor> {
        if self.has_problems() { self.stand_in(shape) } else { make() }
    }

    /// Allows a tensor that the model does not use.
    pub(crate) fn ignore(&self, name: &str) {
        if let Some(report) = &self.report {
            report.with(|found| found.asked.insert(self.full_name(name)));
        }
    }

    /// The problem of a tensor, if there is one.
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

    /// The problem of a tensor's type, if there is one.
    fn type_problem(&self, name: &str, wanted: Wanted) -> Option<WeightProblem> {
        let found = self.loaded_type(name)?;
        let expected = match wanted {
            Wanted::Any => return None,
            _ if !found.is_float() => "a floating-point type".to_owned(),
            Wanted::Float => return None,
            Wanted::Like(other) => {
                let other = self.full_name(other);
                let dtype = self.loaded_type(&other).filter(|&dtype| dtype != found)?;
                format!("{dtype}, which {other} has")
            }
        };
        Some(WeightProblem::DType { name: name.into(), expected, found })
    }

    /// The type of a tensor after it is loaded.
    fn loaded_type(&self, name: &str) -> Option<DType> {
        let dtype = match &*self.source {
            Source::Random { .. } => return None,
            Source::Tensors(tensors) => tensors.get(name)?.dtype(),
            Source::Files(shards) => *shards.find(name)?.1.dtype.as_ref().ok()?,
        };
        Some(self.dtype.filter(|_| dtype.is_float()).unwrap_or(dtype))
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
                if let Some(tensor) = file.wrapped(entry, shape, dtype, &self.device)? {
                    return Ok(tensor);
                }
                let bytes = crate::bytes::from_file(file.data(entry), dtype, false)?;
                Tensor::from_bytes(&bytes, shape, dtype, &self.device)
            }
        }
    }
}

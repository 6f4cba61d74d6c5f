//! Weights: the parameters of layers, by name.

mod advice;
mod file;
mod header;
mod index;
mod inspect;
mod load;
mod prefix;
mod random;
mod save;
mod shards;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use millstream_core::{DType, Device, LayerName};

use self::load::LoadReport;
use self::shards::Shards;
use crate::{Result, Tensor};

pub(crate) use advice::check_folder;
pub use inspect::{TensorInfo, inspect};
pub use random::Init;
pub use save::save;

/// Reads all tensors of a `.safetensors` file, an index or a folder, as [`Weights::open`] takes them. Returns them by
/// name.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{load, save};
/// use millstream::{Device, Tensor};
///
/// # let path = std::env::temp_dir().join(format!("load-{}.safetensors", std::process::id()));
/// let device = Device::cpu()?;
/// save(&path, [("scale", &Tensor::new(&[1.0f32, 2.0], &device)?)])?;
/// let tensors = load(&path, &device)?;
/// assert_eq!(tensors["scale"].to_vec::<f32>()?, [1.0, 2.0]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// # Blocks when
///
/// Always: files are read, and the tensors are settled.
///
/// # Errors
///
/// As for [`Weights::open`], a tensor of a type that is not supported, or no memory.
pub fn load(path: impl AsRef<Path>, device: &Device) -> Result<HashMap<String, Tensor>> {
    let weights = Weights::open(path, device)?;
    let tensor = |name: String| weights.tensor(&name).map(|tensor| (name, tensor));
    weights.names().into_iter().map(tensor).collect()
}

/// Named tensors from which layers are built, with the names of a PyTorch state dictionary.
///
/// A layer takes its parameters from the path that it is given; [`child`](Self::child) goes down by one name, as
/// attributes do in PyTorch. [`load`](Self::load) builds a whole model and reports everything that is missing, left
/// over or of another shape in one error.
///
/// Weights are complete and settled before a layer gets them, so any number of threads read them at no cost.
///
/// # Example
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Linear, Module, ReLU, Sequential, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// fn mlp(weights: &Weights) -> millstream::Result<Sequential> {
///     Ok(Sequential::new()
///         .push(Linear::new(4, 8, true, &weights.child("0"))?)
///         .push(ReLU)
///         .push(Linear::new(8, 2, true, &weights.child("2"))?))
/// }
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(7, DType::F32, &device); // or Weights::open("model.safetensors", &device)?
/// let model = weights.load(mlp)?;
/// let output = model.forward(&Tensor::ones(&[3, 4], DType::F32, &device)?)?;
/// assert_eq!(output.shape(), [3, 2]);
///
/// let none = Weights::from_tensors(Default::default(), &device);
/// let error = none.load(mlp).err().unwrap().to_string();
/// assert!(error.contains("0.weight") && error.contains("2.bias"));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "VarBuilder")]
#[doc(alias = "state_dict")]
pub struct Weights {
    source: Arc<Source>,
    device: Device,
    /// The type to which floating-point tensors are converted.
    dtype: Option<DType>,
    prefix: String,
    /// Collects problems while a model is loaded.
    report: Option<Arc<LoadReport>>,
}

#[derive(Debug)]
enum Source {
    Files(Shards),
    Tensors(HashMap<String, Tensor>),
    Random { seed: u64, dtype: DType },
}

impl Weights {
    fn new(source: Source, device: &Device) -> Self {
        let source = Arc::new(source);
        Self { source, device: *device, dtype: None, prefix: String::new(), report: None }
    }

    /// Opens a `.safetensors` file, the index of a model in several files
    /// (`model.safetensors.index.json`), or a folder with one of these. Files are mapped, not read: they
    /// must not change while the weights are in use, or tensors that were loaded from them. A device that shares the host's memory
    /// reads large tensors where they lie.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::{Linear, Weights, save};
    /// use millstream::{Device, Tensor};
    ///
    /// # let path = std::env::temp_dir().join(format!("open-{}.safetensors", std::process::id()));
    /// let device = Device::cpu()?;
    /// # save(&path, [("weight", &Tensor::new(&[[1.0f32, 2.0]], &device)?)])?;
    /// let layer = Weights::open(&path, &device)?.load(|weights| Linear::new(2, 1, false, weights))?;
    /// # std::fs::remove_file(path).ok();
    /// # let _ = layer;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Blocks when
    ///
    /// Files are read.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not valid, or one above the limits: headers and indices of 64 MiB, 262,144
    /// tensors and 4,096 files. Opening takes at most eight times the size of headers and twenty times the size of an
    /// index as memory.
    #[doc(alias = "from_pretrained")]
    #[doc(alias = "from_mmaped_safetensors")]
    pub fn open(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        Ok(Self::new(Source::Files(Shards::open(path.as_ref())?), device))
    }

    /// Weights from tensors that already exist.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::Weights;
    /// use millstream::{Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let tensors = [("bias".to_owned(), Tensor::new(&[1.0f32], &device)?)];
    /// assert_eq!(Weights::from_tensors(tensors.into(), &device).names(), ["bias"]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn from_tensors(tensors: HashMap<String, Tensor>, device: &Device) -> Self {
        Self::new(Source::Tensors(tensors), device)
    }

    /// Random weights, for measurements and tests. They exist under every name. A weight depends on the seed and its
    /// name alone.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::{Linear, Weights};
    /// use millstream::{DType, Device};
    ///
    /// let weights = Weights::random(42, DType::F32, &Device::cpu()?);
    /// let layer = Linear::new(8, 2, true, &weights.child("fc"))?; // the same numbers at each run
    /// # let _ = layer;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn random(seed: u64, dtype: DType, device: &Device) -> Self {
        Self::new(Source::Random { seed, dtype }, device)
    }

    /// The same weights; floating-point tensors are converted to this type when they are loaded.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::Weights;
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let tensors = [("bias".to_owned(), Tensor::new(&[1.0f32], &device)?)];
    /// let weights = Weights::from_tensors(tensors.into(), &device).to_dtype(DType::BF16);
    /// assert_eq!(weights.tensor("bias")?.dtype(), DType::BF16);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn to_dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// The weights below a name: `weights.child("encoder").child("layers.0")`.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::{Linear, Weights};
    /// use millstream::{DType, Device};
    ///
    /// let weights = Weights::random(1, DType::F32, &Device::cpu()?);
    /// // Takes `encoder.layers.0.weight` and `encoder.layers.0.bias`.
    /// let layer = Linear::new(4, 4, true, &weights.child("encoder").child("layers.0"))?;
    /// # let _ = layer;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[doc(alias = "pp")]
    #[doc(alias = "push_prefix")]
    pub fn child(&self, name: impl std::fmt::Display) -> Self {
        let mut child = self.clone();
        child.prefix = format!("{}{name}.", self.prefix);
        child
    }

    /// The name of a layer that is built from this path, as it appears in faults and traces: the path of
    /// [`child`](Self::child) names, or `kind` if there is none.
    ///
    /// A layer keeps the name, and [enters](LayerName::enter) it in its `forward`.
    pub fn layer_name(&self, kind: &str) -> LayerName {
        let path = self.prefix.strip_suffix('.').unwrap_or(&self.prefix);
        LayerName::new(if path.is_empty() { kind } else { path })
    }

    /// The device to which they are loaded.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The full names of all tensors below this path, sorted. Random weights have none.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::nn::Weights;
    /// use millstream::{Device, Tensor};
    ///
    /// let device = Device::cpu()?;
    /// let tensors = [("fc.bias".to_owned(), Tensor::new(&[1.0f32], &device)?)];
    /// let weights = Weights::from_tensors(tensors.into(), &device);
    /// assert_eq!(weights.names(), ["fc.bias"]);
    /// assert_eq!(weights.child("fc").shape_of("bias"), Some(vec![1]));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = match &*self.source {
            Source::Files(shards) => shards.names().map(str::to_owned).collect(),
            Source::Tensors(tensors) => tensors.keys().cloned().collect(),
            Source::Random { .. } => Vec::new(),
        };
        names.retain(|name| name.starts_with(&self.prefix));
        names.sort_unstable();
        names
    }

    /// The shape of a tensor, if there is one of that name. Random weights have no shapes.
    pub fn shape_of(&self, name: &str) -> Option<Vec<usize>> {
        let name = self.full_name(name);
        match &*self.source {
            Source::Files(shards) => shards.find(&name).map(|(_, entry)| entry.shape.clone()),
            Source::Tensors(tensors) => tensors.get(&name).map(|tensor| tensor.shape().to_vec()),
            Source::Random { .. } => None,
        }
    }

    fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

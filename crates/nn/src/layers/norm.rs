//! Normalization over the last axes or over groups of channels.

use millstream_core::{Command, LayerName};

use super::Module;
use super::check::{misfit, wants_dtype};
use super::describe::described;
use crate::error::refused;
use crate::tensor::OpRecorder;
use crate::{Init, Result, Tensor, Weights};

/// The options of a [`LayerNorm`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct LayerNormOptions {
    /// Added to the variance.
    pub eps: f32,
    /// Whether there is a weight.
    pub elementwise_affine: bool,
    /// Whether there is a bias beside the weight.
    pub bias: bool,
}

impl Default for LayerNormOptions {
    fn default() -> Self {
        Self { eps: 1e-5, elementwise_affine: true, bias: true }
    }
}

/// Normalizes over the last axes. Parameters: `weight` and `bias` of the normalized shape.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{LayerNorm, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let norm = LayerNorm::new(&[16], Default::default(), &weights)?;
/// let input = Tensor::ones(&[2, 10, 16], DType::F32, &device)?;
/// assert_eq!(norm.forward(&input)?.shape(), [2, 10, 16]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct LayerNorm {
    pub(super) normalized_shape: Box<[usize]>,
    pub(super) eps: f32,
    pub(super) weight: Option<Tensor>,
    bias: Option<Tensor>,
    name: LayerName,
}

impl LayerNorm {
    /// Takes `weight` and `bias` from the weights, if the options ask for them.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(
        normalized_shape: &[usize],
        options: LayerNormOptions,
        weights: &Weights,
    ) -> Result<Self> {
        let get = |there: bool, name, init| {
            let get = || weights.parameter_like("weight", name, normalized_shape, init)?.settle();
            there.then(get).transpose()
        };
        let affine = options.elementwise_affine;
        Ok(Self {
            normalized_shape: normalized_shape.into(),
            eps: options.eps,
            weight: get(affine, "weight", Init::Ones)?,
            bias: get(affine && options.bias, "bias", Init::Zeros)?,
            name: weights.layer_name("LayerNorm"),
        })
    }

    /// As [`forward`](Module::forward), writing the result over its input, which nothing else may use.
    pub(crate) fn forward_in_place(&self, fresh: Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        wants_last(self.name, &fresh, &self.normalized_shape, self.weight.as_ref())?;
        let recorder = OpRecorder::new("layer_norm", &fresh.device())?;
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        recorder.record(Command::layer_norm(
            fresh.operand(),
            fresh.operand(),
            weight.map(Tensor::operand),
            bias.map(Tensor::operand),
            self.normalized_shape.len(),
            self.eps,
        ))?;
        Ok(fresh)
    }
}

impl Module for LayerNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        wants_last(self.name, input, &self.normalized_shape, self.weight.as_ref())?;
        let axes = self.normalized_shape.len();
        input.layer_norm(axes, self.weight.as_ref(), self.bias.as_ref(), self.eps)
    }

    described!();
}

/// Checks that the last axes of an input are those that the layer normalizes.
#[inline]
fn wants_last(
    layer: LayerName,
    input: &Tensor,
    shape: &[usize],
    weight: Option<&Tensor>,
) -> Result<()> {
    if !input.shape().ends_with(shape) {
        return misfit(layer.as_str(), input, &format!("normalizes last axes of shape {shape:?}"));
    }
    weight.map_or(Ok(()), |weight| wants_dtype(layer.as_str(), input, weight.dtype()))
}

/// The options of an [`RMSNorm`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct RMSNormOptions {
    /// Added to the mean square. The default is the machine epsilon of the type that computes it.
    pub eps: Option<f32>,
    /// Whether there is a weight.
    pub elementwise_affine: bool,
}

impl Default for RMSNormOptions {
    fn default() -> Self {
        Self { eps: None, elementwise_affine: true }
    }
}

/// Divides by the root of the mean square over the last axes. Parameter: `weight` of their shape.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{Module, RMSNorm, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let norm = RMSNorm::new(&[16], Default::default(), &weights)?;
/// let input = Tensor::ones(&[2, 10, 16], DType::F32, &device)?;
/// assert_eq!(norm.forward(&input)?.shape(), [2, 10, 16]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct RMSNorm {
    pub(super) normalized_shape: Box<[usize]>,
    pub(super) eps: Option<f32>,
    pub(super) weight: Option<Tensor>,
    name: LayerName,
}

impl RMSNorm {
    /// Takes `weight` from the weights, if the options ask for it.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(
        normalized_shape: &[usize],
        options: RMSNormOptions,
        weights: &Weights,
    ) -> Result<Self> {
        let get = || weights.parameter("weight", normalized_shape, Init::Ones)?.settle();
        Ok(Self {
            normalized_shape: normalized_shape.into(),
            eps: options.eps,
            weight: options.elementwise_affine.then(get).transpose()?,
            name: weights.layer_name("RMSNorm"),
        })
    }
}

impl Module for RMSNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        use millstream_core::DType;
        let _layer = self.name.enter();
        wants_last(self.name, input, &self.normalized_shape, self.weight.as_ref())?;
        // PyTorch computes f16 and bf16 in f32, and takes the epsilon of f32.
        let least = match input.dtype() {
            DType::F64 => f64::EPSILON as f32,
            _ => f32::EPSILON,
        };
        let axes = self.normalized_shape.len();
        input.rms_norm(axes, self.weight.as_ref(), self.eps.unwrap_or(least))
    }

    described!();
}

/// The options of a [`GroupNorm`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct GroupNormOptions {
    /// Added to the variance.
    pub eps: f32,
    /// Whether there are a weight and a bias.
    pub affine: bool,
}

impl Default for GroupNormOptions {
    fn default() -> Self {
        Self { eps: 1e-5, affine: true }
    }
}

/// Normalizes groups of neighboring channels. Parameters: `weight` and `bias` `[num_channels]`.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{GroupNorm, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let norm = GroupNorm::new(4, 8, Default::default(), &weights)?;
/// let input = Tensor::ones(&[2, 8, 5, 5], DType::F32, &device)?;
/// assert_eq!(norm.forward(&input)?.shape(), [2, 8, 5, 5]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct GroupNorm {
    pub(super) groups: usize,
    pub(super) channels: usize,
    pub(super) eps: f32,
    pub(super) weight: Option<Tensor>,
    bias: Option<Tensor>,
    name: LayerName,
}

impl GroupNorm {
    /// Takes `weight` and `bias` from the weights, if the options ask for them.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(
        num_groups: usize,
        num_channels: usize,
        options: GroupNormOptions,
        weights: &Weights,
    ) -> Result<Self> {
        let name = weights.layer_name("GroupNorm");
        if num_groups == 0 || !num_channels.is_multiple_of(num_groups) {
            let reason = format!("{num_groups} groups do not divide {num_channels} channels");
            return refused(name.as_str(), reason);
        }
        let get = |name, init| {
            let get = || weights.parameter_like("weight", name, &[num_channels], init)?.settle();
            options.affine.then(get).transpose()
        };
        Ok(Self {
            groups: num_groups,
            channels: num_channels,
            eps: options.eps,
            weight: get("weight", Init::Ones)?,
            bias: get("bias", Init::Zeros)?,
            name,
        })
    }
}

impl Module for GroupNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        let (layer, channels) = (self.name.as_str(), self.channels);
        if input.shape().get(1) != Some(&channels) {
            return misfit(layer, input, &format!("takes [batch, {channels}, …]"));
        }
        if let Some(weight) = &self.weight {
            wants_dtype(layer, input, weight.dtype())?;
        }
        input.group_norm(self.groups, self.weight.as_ref(), self.bias.as_ref(), self.eps)
    }

    described!();
}

/// The options of an [`InstanceNorm`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct InstanceNormOptions {
    /// Added to the variance.
    pub eps: f32,
    /// Whether there are a weight and a bias.
    pub affine: bool,
}

impl Default for InstanceNormOptions {
    fn default() -> Self {
        Self { eps: 1e-5, affine: false }
    }
}

/// Normalizes each channel of each input by itself: PyTorch's `InstanceNorm1d` to `InstanceNorm3d`. Parameters if
/// `affine`: `weight` and `bias` `[num_features]`.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{InstanceNorm, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let norm = InstanceNorm::new(3, Default::default(), &weights)?;
/// let input = Tensor::ones(&[2, 3, 8, 8], DType::F32, &device)?;
/// assert_eq!(norm.forward(&input)?.shape(), [2, 3, 8, 8]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[doc(alias = "InstanceNorm1d")]
#[doc(alias = "InstanceNorm2d")]
#[doc(alias = "InstanceNorm3d")]
pub struct InstanceNorm(pub(super) GroupNorm);

impl InstanceNorm {
    /// Takes `weight` and `bias` from the weights, if the options ask for them.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(
        num_features: usize,
        options: InstanceNormOptions,
        weights: &Weights,
    ) -> Result<Self> {
        let InstanceNormOptions { eps, affine } = options;
        let mut norm =
            GroupNorm::new(num_features, num_features, GroupNormOptions { eps, affine }, weights)?;
        norm.name = weights.layer_name("InstanceNorm");
        Ok(Self(norm))
    }
}

impl Module for InstanceNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.0.forward(input)
    }

    described!();
}

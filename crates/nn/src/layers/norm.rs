//! Normalization over the last axes or over groups of channels.

use millstream_core::{Command, LayerName};

use super::Module;
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
pub struct LayerNorm {
    axes: usize,
    eps: f32,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    name: LayerName,
}

impl LayerNorm {
    /// Takes `weight` and `bias`, as the options say.
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
            there.then(|| weights.get(name, normalized_shape, init)).transpose()
        };
        let affine = options.elementwise_affine;
        Ok(Self {
            axes: normalized_shape.len(),
            eps: options.eps,
            weight: get(affine, "weight", Init::Ones)?,
            bias: get(affine && options.bias, "bias", Init::Zeros)?,
            name: weights.layer_name("LayerNorm"),
        })
    }

    /// Over a tensor that nobody else has seen, whose memory becomes the result's.
    pub(crate) fn forward_in_place(&self, fresh: Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        let recorder = OpRecorder::new("layer_norm", &fresh.device())?;
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        recorder.record(Command::layer_norm(
            fresh.operand(),
            fresh.operand(),
            weight.map(Tensor::operand),
            bias.map(Tensor::operand),
            self.axes,
            self.eps,
        ))?;
        Ok(fresh)
    }
}

impl Module for LayerNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        input.layer_norm(self.axes, self.weight.as_ref(), self.bias.as_ref(), self.eps)
    }
}

/// The options of an [`RMSNorm`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct RMSNormOptions {
    /// Added to the mean square; unless given, the distance from 1 to the next number of the input's type.
    pub eps: Option<f32>,
    /// Whether there is a weight.
    pub elementwise_affine: bool,
}

impl Default for RMSNormOptions {
    fn default() -> Self {
        Self { eps: None, elementwise_affine: true }
    }
}

/// Divides by the root of the mean square over the last axes. Parameter: `weight` of that shape.
pub struct RMSNorm {
    axes: usize,
    eps: Option<f32>,
    weight: Option<Tensor>,
    name: LayerName,
}

impl RMSNorm {
    /// Takes `weight`, as the options say.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(
        normalized_shape: &[usize],
        options: RMSNormOptions,
        weights: &Weights,
    ) -> Result<Self> {
        let get = || weights.get("weight", normalized_shape, Init::Ones);
        Ok(Self {
            axes: normalized_shape.len(),
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
        // PyTorch computes halves in f32, and takes the distance of that type.
        let least = match input.dtype() {
            DType::F64 => f64::EPSILON as f32,
            _ => f32::EPSILON,
        };
        input.rms_norm(self.axes, self.weight.as_ref(), self.eps.unwrap_or(least))
    }
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
pub struct GroupNorm {
    groups: usize,
    eps: f32,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    name: LayerName,
}

impl GroupNorm {
    /// Takes `weight` and `bias`, as the options say.
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
        let get = |name, init| {
            options.affine.then(|| weights.get(name, &[num_channels], init)).transpose()
        };
        Ok(Self {
            groups: num_groups,
            eps: options.eps,
            weight: get("weight", Init::Ones)?,
            bias: get("bias", Init::Zeros)?,
            name: weights.layer_name("GroupNorm"),
        })
    }
}

impl Module for GroupNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        input.group_norm(self.groups, self.weight.as_ref(), self.bias.as_ref(), self.eps)
    }
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

/// Normalizes every channel of every batch by itself: PyTorch's `InstanceNorm1d` to `InstanceNorm3d`. Parameters, if
/// any: `weight` and `bias` `[num_features]`.
pub struct InstanceNorm(GroupNorm);

impl InstanceNorm {
    /// Takes `weight` and `bias`, as the options say.
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
}

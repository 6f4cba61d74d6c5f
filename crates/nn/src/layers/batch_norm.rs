//! Normalization with mean and variance from training.

use millstream_core::{BinaryOp, Command, DType, LayerName};

use super::Module;
use super::check::{misfit, wants_dtype};
use super::describe::described;
use crate::tensor::OpRecorder;
use crate::{Init, Result, Tensor, Weights};

/// The options of a [`BatchNorm`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormOptions {
    /// Added to the variance.
    pub eps: f64,
    /// Whether there are a weight and a bias.
    pub affine: bool,
}

impl Default for BatchNormOptions {
    fn default() -> Self {
        Self { eps: 1e-5, affine: true }
    }
}

/// Normalizes each channel (axis 1) with the mean and variance from training.
///
/// Parameters, all `[num_features]`: `weight`, `bias`, `running_mean`, `running_var`. They become one scale
/// and one shift per channel when the layer is made. After a convolution,
/// [`Conv::with_batch_norm`](super::Conv::with_batch_norm) makes one layer of both.
///
/// [`BatchNorm2d`] has an example.
pub struct BatchNorm {
    scale: Tensor,
    shift: Tensor,
    pub(super) options: BatchNormOptions,
    name: LayerName,
}

/// Batch normalization of `[batch, channels]` or `[batch, channels, length]`.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{BatchNorm1d, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let norm = BatchNorm1d::new(4, Default::default(), &weights)?;
/// let input = Tensor::ones(&[2, 4], DType::F32, &device)?;
/// assert_eq!(norm.forward(&input)?.shape(), [2, 4]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type BatchNorm1d = BatchNorm;
/// Batch normalization of `[batch, channels, height, width]`.
///
/// ```
/// # millstream_nn::doctest!();
/// use millstream::nn::{BatchNorm2d, Module, Weights};
/// use millstream::{DType, Device, Tensor};
///
/// let device = Device::cpu()?;
/// let weights = Weights::random(1, DType::F32, &device); // or from a file, with Weights::open
/// let norm = BatchNorm2d::new(8, Default::default(), &weights)?;
/// let input = Tensor::ones(&[1, 8, 5, 5], DType::F32, &device)?;
/// assert_eq!(norm.forward(&input)?.shape(), [1, 8, 5, 5]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub type BatchNorm2d = BatchNorm;

impl BatchNorm {
    /// Takes the parameters.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(num_features: usize, options: BatchNormOptions, weights: &Weights) -> Result<Self> {
        weights.ignore("num_batches_tracked");
        let fetch = |name, init| weights.parameter(name, &[num_features], init);
        let affine = |name, init| options.affine.then(|| fetch(name, init)).transpose();
        let mean = fetch("running_mean", Init::Zeros)?;
        let variance = fetch("running_var", Init::Ones)?;
        let weight = affine("weight", Init::Ones)?;
        let bias = affine("bias", Init::Zeros)?;
        let name = weights.layer_name("BatchNorm");
        if weights.has_problems() {
            return Ok(Self { scale: variance.settle()?, shift: mean.settle()?, options, name });
        }
        // Computed in f64, so that only the last rounding costs accuracy.
        let mut scale = (variance.to_dtype(DType::F64)? + options.eps)?.rsqrt()?;
        if let Some(weight) = weight {
            scale = scale.mul(weight.to_dtype(DType::F64)?)?;
        }
        let mut shift = (mean.to_dtype(DType::F64)? * &scale)?.neg()?;
        if let Some(bias) = bias {
            shift = shift.add(bias.to_dtype(DType::F64)?)?;
        }
        let dtype = mean.dtype();
        Ok(Self {
            scale: scale.to_dtype(dtype)?.settle()?,
            shift: shift.to_dtype(dtype)?.settle()?,
            options,
            name,
        })
    }

    /// The factor of each channel.
    pub fn scale(&self) -> &Tensor {
        &self.scale
    }

    /// What is added to each channel after it is multiplied.
    pub fn shift(&self) -> &Tensor {
        &self.shift
    }
}

impl Module for BatchNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        let (layer, channels) = (self.name.as_str(), self.scale.elements());
        if input.shape().get(1) != Some(&channels) {
            return misfit(layer, input, &format!("takes [batch, {channels}, …]"));
        }
        wants_dtype(layer, input, self.scale.dtype())?;
        let mut wide = vec![1; input.rank() - 1];
        wide[0] = channels;
        let result = input.mul(self.scale.reshape(&wide)?)?;
        // Nothing else uses the product, so the sum is written over it.
        let shift = self.shift.reshape(&wide)?;
        let recorder = OpRecorder::new("batch_norm", &input.device())?;
        let (sum, shift) = (result.operand(), shift.operand());
        recorder.record(Command::binary(BinaryOp::Add, sum, sum, shift))?;
        Ok(result)
    }

    described!();
}

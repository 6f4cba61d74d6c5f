//! Normalization by what was seen in training.

use millstream_core::{BinaryOp, Command, DType, LayerName};

use super::Module;
use crate::error::invalid;
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

/// Scales and shifts each channel (axis 1) by the mean and variance seen in training.
///
/// Parameters, all `[num_features]`: `weight`, `bias`, `running_mean`, `running_var`. They become one scale
/// and one shift per channel when the layer is made. Behind a convolution,
/// [`Conv::with_batch_norm`](super::Conv::with_batch_norm) makes one layer of both.
pub struct BatchNorm {
    scale: Tensor,
    shift: Tensor,
    name: LayerName,
}

/// Batch normalization of `[batch, channels]` or `[batch, channels, length]`.
pub type BatchNorm1d = BatchNorm;
/// Batch normalization of `[batch, channels, height, width]`.
pub type BatchNorm2d = BatchNorm;

impl BatchNorm {
    /// Takes the parameters.
    ///
    /// # Errors
    ///
    /// Weights that are missing or of another shape, or no memory.
    pub fn new(num_features: usize, options: BatchNormOptions, weights: &Weights) -> Result<Self> {
        weights.ignore("num_batches_tracked");
        let fetch = |name, init| weights.fetch(name, &[num_features], init);
        let affine = |name, init| options.affine.then(|| fetch(name, init)).transpose();
        let mean = fetch("running_mean", Init::Zeros)?;
        let variance = fetch("running_var", Init::Ones)?;
        let weight = affine("weight", Init::Ones)?;
        let bias = affine("bias", Init::Zeros)?;
        let name = weights.layer_name("BatchNorm");
        if weights.has_problems() {
            return Ok(Self { scale: variance.settle()?, shift: mean.settle()?, name });
        }
        // Folded in f64, so that it costs no more accuracy than one rounding.
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
            name,
        })
    }

    /// What each channel is multiplied with.
    pub fn scale(&self) -> &Tensor {
        &self.scale
    }

    /// What is then added to each channel.
    pub fn shift(&self) -> &Tensor {
        &self.shift
    }
}

impl Module for BatchNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let _layer = self.name.enter();
        let (shape, channels) = (input.shape(), self.scale.elements());
        if shape.get(1) != Some(&channels) {
            return invalid("batch_norm", format!("input {shape:?} for {channels} channels"));
        }
        let mut wide = vec![1; input.rank() - 1];
        wide[0] = channels;
        let result = input.mul(self.scale.reshape(&wide)?)?;
        // Nobody else has seen the product yet, so its memory takes the sum.
        let shift = self.shift.reshape(&wide)?;
        let recorder = OpRecorder::new("batch_norm", &input.device())?;
        let (sum, shift) = (result.operand(), shift.operand());
        recorder.record(Command::binary(BinaryOp::Add, sum, sum, shift))?;
        Ok(result)
    }
}

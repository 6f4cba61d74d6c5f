//! Normalisation.

use millstream_core::Command;

use super::{Recorder, Tensor};
use crate::Result;

impl Tensor {
    /// Normalises over the last `axes` axes: `(x - mean) / √(variance + epsilon) · weight + bias`.
    ///
    /// # Errors
    ///
    /// A type that is not floating point, weights of another shape or type than the axes, or no memory.
    pub fn layer_norm(
        &self,
        axes: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        epsilon: f32,
    ) -> Result<Self> {
        let recorder = Recorder::new("layer_norm", &self.device())?;
        let result = recorder.output(self.dtype(), self.shape())?;
        let (weight, bias) = (weight.map(Tensor::operand), bias.map(Tensor::operand));
        let (to, from) = (result.operand(), self.operand());
        recorder.record(Command::layer_norm(to, from, weight, bias, axes, epsilon))?;
        Ok(result)
    }

    /// Divides by the root of the mean square over the last `axes` axes, then multiplies by `weight`.
    ///
    /// # Errors
    ///
    /// As for [`layer_norm`](Self::layer_norm).
    pub fn rms_norm(&self, axes: usize, weight: Option<&Tensor>, epsilon: f32) -> Result<Self> {
        let recorder = Recorder::new("rms_norm", &self.device())?;
        let result = recorder.output(self.dtype(), self.shape())?;
        let weight = weight.map(Tensor::operand);
        recorder.record(Command::rms_norm(
            result.operand(),
            self.operand(),
            weight,
            axes,
            epsilon,
        ))?;
        Ok(result)
    }

    /// Normalises groups of neighbouring channels (axis 1) over themselves and all axes behind them.
    ///
    /// # Errors
    ///
    /// A type that is not floating point, groups that do not divide the channels, weights of another
    /// shape than the channels, or no memory.
    pub fn group_norm(
        &self,
        groups: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        epsilon: f32,
    ) -> Result<Self> {
        let recorder = Recorder::new("group_norm", &self.device())?;
        let result = recorder.output(self.dtype(), self.shape())?;
        let (weight, bias) = (weight.map(Tensor::operand), bias.map(Tensor::operand));
        let (to, from) = (result.operand(), self.operand());
        recorder.record(Command::group_norm(to, from, weight, bias, groups, epsilon))?;
        Ok(result)
    }
}

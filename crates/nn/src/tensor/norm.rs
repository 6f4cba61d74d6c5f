//! Normalization.

use millstream_core::Op;

use super::record::some;
use super::{OpRecorder, Tensor};
use crate::Result;
use crate::error::invalid;

impl Tensor {
    /// Normalizes over the last `axes` axes: `(x - mean) / √(variance + epsilon) · weight + bias`.
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
        let op = Op::LayerNorm {
            axes: narrow(axes),
            epsilon,
            weight: weight.is_some(),
            bias: bias.is_some(),
        };
        OpRecorder::new("layer_norm", &self.device())?.apply(op, &some([Some(self), weight, bias]))
    }

    /// Divides by the root of the mean square over the last `axes` axes, then multiplies by `weight`.
    ///
    /// # Errors
    ///
    /// As for [`layer_norm`](Self::layer_norm).
    pub fn rms_norm(&self, axes: usize, weight: Option<&Tensor>, epsilon: f32) -> Result<Self> {
        let op = Op::RmsNorm { axes: narrow(axes), epsilon, weight: weight.is_some() };
        OpRecorder::new("rms_norm", &self.device())?.apply(op, &some([Some(self), weight]))
    }

    /// Normalizes groups of neighboring channels (axis 1) over themselves and all axes behind them.
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
        let name = "group_norm";
        let Ok(groups) = u32::try_from(groups) else {
            return invalid(name, format!("{groups} groups"));
        };
        let op = Op::GroupNorm { groups, epsilon, weight: weight.is_some(), bias: bias.is_some() };
        OpRecorder::new(name, &self.device())?.apply(op, &some([Some(self), weight, bias]))
    }
}

/// A number of axes: one beyond this fits no tensor.
fn narrow(axes: usize) -> u8 {
    u8::try_from(axes).unwrap_or(u8::MAX)
}

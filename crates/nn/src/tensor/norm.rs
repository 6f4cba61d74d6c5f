//! Normalization.

use millstream_core::Op;

use super::record::some;
use super::{OpRecorder, Tensor};
use crate::Result;
use crate::error::invalid;

impl Tensor {
    /// Normalizes over the last `axes` axes: `(x - mean) / √(variance + epsilon) · weight + bias`.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1.0f32, 3.0]], &Device::cpu()?)?;
    /// assert_eq!(a.layer_norm(1, None, None, 0.0)?.to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
            moments: false,
        };
        OpRecorder::new("layer_norm", &self.device())?.apply(op, &some([Some(self), weight, bias]))
    }

    /// Divides by the root of the mean square over the last `axes` axes, then multiplies by `weight`.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1.0f32, 7.0]], &Device::cpu()?)?; // the root of the mean square is 5
    /// assert_eq!(a.rms_norm(1, None, 0.0)?.to_string(), "tensor([[0.2000, 1.4000]])");
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`layer_norm`](Self::layer_norm).
    pub fn rms_norm(&self, axes: usize, weight: Option<&Tensor>, epsilon: f32) -> Result<Self> {
        let op = Op::RmsNorm { axes: narrow(axes), epsilon, weight: weight.is_some() };
        OpRecorder::new("rms_norm", &self.device())?.apply(op, &some([Some(self), weight]))
    }

    /// Normalizes each group of neighboring channels (axis 1) over its channels and all later axes.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1.0f32, 3.0, 10.0, 30.0]], &Device::cpu()?)?; // one batch of 4 channels
    /// assert_eq!(a.group_norm(2, None, None, 0.0)?.to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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

/// The number of axes. 255 is more than any tensor has, and is refused.
fn narrow(axes: usize) -> u8 {
    u8::try_from(axes).unwrap_or(u8::MAX)
}

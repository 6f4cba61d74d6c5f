//! Convolution and pooling.

use millstream_core::{Activation, ConvParams, Epilogue, Op, PoolParams};

use super::record::some;
use super::{OpRecorder, Tensor};
use crate::Result;

impl Tensor {
    /// Convolution of `[batch, channels, spatial…]` with weights `[outputs, channels / groups, kernel…]`
    /// over 1 to 3 spatial axes, a bias of `[outputs]`, and an activation.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::command::{Activation, ConvParams};
    /// use millstream::{Device, Tensor};
    ///
    /// let input = Tensor::new(&[[[1.0f32, 2.0, 3.0, 4.0]]], &Device::cpu()?)?; // [batch, channels, length]
    /// let weight = Tensor::new(&[[[1.0f32, 1.0]]], &Device::cpu()?)?; // [outputs, channels, kernel]
    /// let sums = input.conv(&weight, None, ConvParams::new(1), Activation::None)?;
    /// assert_eq!(sums.to_vec::<f32>()?, [3.0, 5.0, 7.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Shapes, groups or types that do not fit, a window that does not fit the input, or no memory.
    #[doc(alias = "conv1d")]
    #[doc(alias = "conv2d")]
    #[doc(alias = "conv3d")]
    pub fn conv(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: ConvParams,
        activation: Activation,
    ) -> Result<Self> {
        let epilogue = Epilogue { bias: bias.is_some(), activation, ..Epilogue::default() };
        let op = Op::Conv { params: Box::new(params), epilogue };
        let inputs = some([Some(self), Some(weight), bias]);
        OpRecorder::new("conv", &self.device())?.apply(op, &inputs)
    }

    /// Transposed convolution of `[batch, channels, spatial…]` with weights
    /// `[channels, outputs / groups, kernel…]`, a bias of `[outputs]`, and an activation.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::command::{Activation, ConvParams};
    /// use millstream::{Device, Tensor};
    ///
    /// let input = Tensor::new(&[[[1.0f32, 2.0]]], &Device::cpu()?)?;
    /// let weight = Tensor::new(&[[[1.0f32, 10.0]]], &Device::cpu()?)?; // [channels, outputs, kernel]
    /// let output = input.conv_transpose(&weight, None, ConvParams::new(1), Activation::None)?;
    /// assert_eq!(output.to_vec::<f32>()?, [1.0, 12.0, 20.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`conv`](Self::conv).
    pub fn conv_transpose(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: ConvParams,
        activation: Activation,
    ) -> Result<Self> {
        let epilogue = Epilogue { bias: bias.is_some(), activation, ..Epilogue::default() };
        let op = Op::ConvTranspose { params: Box::new(params), epilogue };
        let inputs = some([Some(self), Some(weight), bias]);
        OpRecorder::new("conv_transpose", &self.device())?.apply(op, &inputs)
    }

    /// Pooling of `[batch, channels, spatial…]` over windows that fit in the padded input.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::command::{PoolKind, PoolOrder, PoolParams};
    /// use millstream::{Device, Tensor};
    ///
    /// let input = Tensor::new(&[[[1.0f32, 4.0, 3.0, 2.0]]], &Device::cpu()?)?; // [batch, channels, length]
    /// let params = PoolParams {
    ///     kind: PoolKind::Max,
    ///     spatial: 1,
    ///     kernel: [2, 1, 1],
    ///     stride: [2, 1, 1],
    ///     pad_before: [0; 3],
    ///     pad_after: [0; 3],
    ///     dilation: [1; 3],
    ///     ceil: false,
    ///     indices: false,
    ///     order: PoolOrder::Channel,
    /// };
    /// assert_eq!(input.pool(params)?.to_vec::<f32>()?, [4.0, 3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A shape or type that does not fit, or no memory.
    #[doc(alias = "max_pool2d")]
    #[doc(alias = "avg_pool2d")]
    pub fn pool(&self, params: PoolParams) -> Result<Self> {
        let params = PoolParams { indices: false, ..params };
        let op = Op::Pool { params: Box::new(params) };
        OpRecorder::new("pool", &self.device())?.apply(op, &[self])
    }
}

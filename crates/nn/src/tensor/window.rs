//! Convolution and pooling.

use millstream_core::{Activation, ConvParams, Epilogue, Op, PoolParams};

use super::record::some;
use super::{OpRecorder, Tensor};
use crate::Result;

impl Tensor {
    /// Convolution of `[batch, channels, spatial…]` with weights `[outputs, channels / groups, kernel…]`
    /// over 1 to 3 spatial axes, a bias of `[outputs]`, and an activation.
    ///
    /// # Errors
    ///
    /// Shapes, groups or types that do not fit, a window that does not fit the input, or no memory.
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
    /// # Errors
    ///
    /// A shape or type that does not fit, or no memory.
    pub fn pool(&self, params: PoolParams) -> Result<Self> {
        let params = PoolParams { indices: false, ..params };
        let op = Op::Pool { params: Box::new(params) };
        OpRecorder::new("pool", &self.device())?.apply(op, &[self])
    }
}

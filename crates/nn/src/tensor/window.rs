//! Convolution and pooling.

use millstream_core::{Activation, Command, ConvParams, PoolParams};

use super::{Recorder, Tensor};
use crate::Result;
use crate::error::invalid;

/// The size that windows leave, or `None` where no window fits.
fn windows(
    size: usize,
    kernel: usize,
    [stride, before, after, dilation]: [u32; 4],
) -> Option<usize> {
    let padded = size.checked_add(before as usize)?.checked_add(after as usize)?;
    let reach = kernel.checked_sub(1)?.checked_mul(dilation as usize)?.checked_add(1)?;
    padded.checked_sub(reach)?.checked_div(stride as usize)?.checked_add(1)
}

/// The size that a transposed convolution gives.
fn unwound(size: usize, kernel: usize, params: &ConvParams, axis: usize) -> Option<usize> {
    let steps = size.checked_sub(1)?.checked_mul(params.stride[axis] as usize)?;
    let reach = kernel.checked_sub(1)?.checked_mul(params.dilation[axis] as usize)?;
    let padding =
        (params.pad_before[axis] as usize).checked_add(params.pad_after[axis] as usize)?;
    let extra = params.output_padding[axis] as usize;
    steps.checked_add(reach)?.checked_add(extra)?.checked_add(1)?.checked_sub(padding)
}

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
        let shape = self.spatial("conv", weight, &params, 0, |size, kernel, axis| {
            let window = [
                params.stride[axis],
                params.pad_before[axis],
                params.pad_after[axis],
                params.dilation[axis],
            ];
            windows(size, kernel, window)
        })?;
        let recorder = Recorder::new("conv", &self.device())?;
        let result = recorder.output(self.dtype(), &shape)?;
        recorder.record(Command::conv(
            result.operand(),
            self.operand(),
            weight.operand(),
            bias.map(Tensor::operand),
            None,
            params,
            1.0,
            activation,
        ))?;
        Ok(result)
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
        let name = "conv_transpose";
        let mut shape = self.spatial(name, weight, &params, 1, |size, kernel, axis| {
            unwound(size, kernel, &params, axis)
        })?;
        shape[1] = shape[1].saturating_mul(params.groups as usize);
        let recorder = Recorder::new(name, &self.device())?;
        let result = recorder.output(self.dtype(), &shape)?;
        recorder.record(Command::conv_transpose(
            result.operand(),
            self.operand(),
            weight.operand(),
            bias.map(Tensor::operand),
            params,
            1.0,
            activation,
        ))?;
        Ok(result)
    }

    /// The shape of a convolution's result, with the channels from an axis of the weights.
    fn spatial(
        &self,
        op: &'static str,
        weight: &Tensor,
        params: &ConvParams,
        outputs: usize,
        size: impl Fn(usize, usize, usize) -> Option<usize>,
    ) -> Result<Vec<usize>> {
        let (input, kernel) = (self.shape(), weight.shape());
        let spatial = usize::from(params.spatial);
        let misfit = || format!("input {input:?} and weight {kernel:?} do not fit with {params:?}");
        if !(1..=3).contains(&spatial) || input.len() != spatial + 2 || kernel.len() != spatial + 2
        {
            return invalid(op, misfit());
        }
        let mut shape = vec![input[0], kernel[outputs]];
        for axis in 0..spatial {
            match size(input[axis + 2], kernel[axis + 2], axis) {
                Some(size) => shape.push(size),
                None => return invalid(op, misfit()),
            }
        }
        Ok(shape)
    }

    /// Pooling of `[batch, channels, spatial…]` over windows that fit in the padded input.
    ///
    /// # Errors
    ///
    /// A shape or type that does not fit, or no memory.
    pub fn pool(&self, params: PoolParams) -> Result<Self> {
        let (input, spatial) = (self.shape(), usize::from(params.spatial));
        let misfit = || format!("input {input:?} does not fit {params:?}");
        if !(1..=3).contains(&spatial) || input.len() != spatial + 2 {
            return invalid("pool", misfit());
        }
        let mut shape = input[..2].to_vec();
        for axis in 0..spatial {
            let window = [
                params.stride[axis],
                params.pad_before[axis],
                params.pad_after[axis],
                params.dilation[axis],
            ];
            match windows(input[axis + 2], params.kernel[axis] as usize, window) {
                Some(size) => shape.push(size),
                None => return invalid("pool", misfit()),
            }
        }
        let recorder = Recorder::new("pool", &self.device())?;
        let result = recorder.output(self.dtype(), &shape)?;
        recorder.record(Command::pool(result.operand(), None, self.operand(), params))?;
        Ok(result)
    }
}

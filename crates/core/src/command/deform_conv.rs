//! Convolutions whose taps are moved by data.

use super::{BufferLike, Command, ConvParams, Op, Operand};
use crate::Result;

/// A convolution whose taps are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeformConvParams {
    /// Its geometry, over two spatial axes.
    pub conv: ConvParams,
    /// Input channels are split in this many groups, each with offsets and a mask of its own.
    pub offset_groups: u32,
    /// Whether `bias` is given.
    pub bias: bool,
    /// Whether `mask` is given.
    pub mask: bool,
}

impl<B: BufferLike> Command<B> {
    /// Convolution over two spatial axes, of which every tap is moved by an offset and multiplied by a mask.
    ///
    /// | operand | shape |
    /// |---|---|
    /// | `dst` | `[batch, outputs, out_height, out_width]` |
    /// | `src` | `[batch, channels, height, width]` |
    /// | `weight` | `[outputs, channels / groups, kernel_height, kernel_width]` |
    /// | `offset` | `[batch, offset_groups · kernel_height · kernel_width · 2, out_height, out_width]` |
    /// | `bias` | `[outputs]` |
    /// | `mask` | `[batch, offset_groups · kernel_height · kernel_width, out_height, out_width]` |
    ///
    /// Offsets are pairs of y and x. What lies between elements is found linearly along both axes, and outside are
    /// zeros. An offset that is no number leads outside. Places are computed in `f32`, and sums are kept in it, in an
    /// order that depends on the weights alone.
    ///
    /// # Errors
    ///
    /// Types other than `f32`, `f16` and `bf16` or that differ, a geometry that is not of two axes, groups that do not
    /// divide the channels, other shapes that do not match, a step of 0, a window larger than the padded input, or
    /// operands that do not fit their buffers or overlap.
    #[allow(clippy::too_many_arguments)]
    pub fn deform_conv(
        dst: Operand<B>,
        src: Operand<B>,
        weight: Operand<B>,
        offset: Operand<B>,
        bias: Option<Operand<B>>,
        mask: Option<Operand<B>>,
        conv: ConvParams,
        offset_groups: u32,
    ) -> Result<Self> {
        let (has_bias, has_mask) = (bias.is_some(), mask.is_some());
        let params = DeformConvParams { conv, offset_groups, bias: has_bias, mask: has_mask };
        let op = Op::DeformConv { params: Box::new(params) };
        Self::new(op, [dst], [src, weight, offset].into_iter().chain(bias).chain(mask))
    }
}

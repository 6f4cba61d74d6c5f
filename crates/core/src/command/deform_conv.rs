//! Deformable convolutions: the data moves each tap.

use super::{BufferLike, Command, ConvParams, Op, Operand};
use crate::Result;

/// Parameters of a deformable convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeformConvParams {
    /// Its geometry, over two spatial axes.
    pub conv: ConvParams,
    /// Input channels are split into this many groups, each with its own offsets and mask.
    pub offset_groups: u32,
    /// Whether `bias` is given.
    pub bias: bool,
    /// Whether `mask` is given.
    pub mask: bool,
}

impl<B: BufferLike> Command<B> {
    /// Deformable convolution over two spatial axes: each tap is moved by an offset and multiplied by a mask.
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
    /// Offsets are pairs of y and x. Values between elements are interpolated linearly along both axes. Outside of
    /// the input all values are zero, and a NaN offset leads outside. Positions are computed in `f32`. Sums are kept
    /// in `f32`, in an order that depends on the weights alone.
    ///
    /// # Errors
    ///
    /// Types that differ or are not `f32`, `f16` or `bf16`, a number of spatial axes other than two, groups that do
    /// not divide the channels, other shapes that do not match, a stride of 0, a window larger than the padded input,
    /// or operands that do not fit their buffers or overlap.
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

//! Convolutions.

use super::{Activation, BufferLike, Command, ConvParams, Epilogue, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// `dst = activation(scale · conv(src, weight) + bias + residual)` over 1 to 3 spatial axes.
    ///
    /// `src` is `[batch, channels, spatial…]`, `weight` is `[outputs, channels / groups, kernel…]`,
    /// `dst` is `[batch, outputs, spatial…]`, `bias` is `[outputs]`, and `residual` broadcasts to
    /// `dst`. Sums are kept in `f32` (`f64` for `f64`), in an order that depends on the weights, and on how weights and output
    /// lie, alone.
    ///
    /// # Errors
    ///
    /// Ranks, sizes, groups or types that do not match, a step of 0, a window larger than the padded
    /// input, or operands that do not fit their buffers or overlap.
    #[allow(clippy::too_many_arguments)]
    pub fn conv(
        dst: Operand<B>,
        src: Operand<B>,
        weight: Operand<B>,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
        params: ConvParams,
        scale: f32,
        activation: Activation,
    ) -> Result<Self> {
        let epilogue =
            Epilogue { scale, bias: bias.is_some(), residual: residual.is_some(), activation };
        let op = Op::Conv { params: Box::new(params), epilogue };
        Self::new(op, [dst], [src, weight].into_iter().chain(bias).chain(residual))
    }

    /// `dst = activation(scale · conv_transpose(src, weight) + bias)`: the gradient of [`conv`](Self::conv), with the
    /// same parameters, with respect to its input.
    ///
    /// `src` is `[batch, channels, spatial…]`, `weight` is `[channels, outputs / groups, kernel…]`,
    /// `dst` is `[batch, outputs, spatial…]` with spatial sizes of
    /// `(size - 1) · stride - padding + (kernel - 1) · dilation + 1 + output_padding`.
    ///
    /// # Errors
    ///
    /// As for [`conv`](Self::conv), or padding that takes away more elements than there are.
    pub fn conv_transpose(
        dst: Operand<B>,
        src: Operand<B>,
        weight: Operand<B>,
        bias: Option<Operand<B>>,
        params: ConvParams,
        scale: f32,
        activation: Activation,
    ) -> Result<Self> {
        let epilogue = Epilogue { scale, bias: bias.is_some(), residual: false, activation };
        let op = Op::ConvTranspose { params: Box::new(params), epilogue };
        Self::new(op, [dst], [src, weight].into_iter().chain(bias))
    }

    /// Convolution of 8-bit integers to `i32`: `src - src_zero` with `weight - weight_zero`. Both are `u8` or `i8`.
    /// Sums wrap around.
    ///
    /// Shapes are those of [`conv`](Self::conv). `src_zero` is one number; `weight_zero` is one number or
    /// `[outputs]`. Each has the type of its operand.
    ///
    /// # Errors
    ///
    /// As for [`conv`](Self::conv), or zero points of another shape or type.
    pub fn conv_integer(
        dst: Operand<B>,
        src: Operand<B>,
        weight: Operand<B>,
        src_zero: Option<Operand<B>>,
        weight_zero: Option<Operand<B>>,
        params: ConvParams,
    ) -> Result<Self> {
        let op = Op::ConvInteger {
            params: Box::new(params),
            src_zero: src_zero.is_some(),
            weight_zero: weight_zero.is_some(),
            rescale: None,
        };
        Self::new(op, [dst], [src, weight].into_iter().chain(src_zero).chain(weight_zero))
    }
}

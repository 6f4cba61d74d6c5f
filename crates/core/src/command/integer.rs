//! Matrix products and convolutions of 8-bit integers, and how their sums are rescaled.

use super::{Activation, BufferLike, Command, ConvParams, Op, Operand};
use crate::{DType, Result};

/// The epilogue of a product of 8-bit integers: each exact sum becomes `activation(a_scale · b_scale · sum + bias +
/// residual)`, stored as floating point or quantized to 8 bits again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rescale {
    /// The element type of `dst`: `f32`, `f16` or `bf16`, or `u8` or `i8` with a `dst_scale`.
    pub dtype: DType,
    /// Whether a bias is given. A bias of `i32` is added to the sum; a bias in floating point is added after scaling.
    pub bias: bool,
    /// Whether a residual is given.
    pub residual: bool,
    /// Applied last, before the result is quantized.
    pub activation: Activation,
    /// Whether `dst_zero` is given. Only quantized outputs have one.
    pub zero: bool,
}

impl Rescale {
    /// Whether `dst` has 8-bit integers.
    pub fn is_byte(&self) -> bool {
        matches!(self.dtype, DType::U8 | DType::I8)
    }
}

/// 8-bit integers that stand for numbers: `(values - zero) · scale`.
#[derive(Clone, Copy, Debug)]
pub struct Quantized<B> {
    /// The integers.
    pub values: Operand<B>,
    /// The scale, of `f32`.
    pub scale: Operand<B>,
    /// The zero point; 0 if absent.
    pub zero: Option<Operand<B>>,
}

/// The operands of the epilogue, and the parameters that describe them.
fn extras<B>(
    dtype: DType,
    bias: Option<Operand<B>>,
    residual: Option<Operand<B>>,
    activation: Activation,
    requantize: Option<(Operand<B>, Option<Operand<B>>)>,
) -> (impl Iterator<Item = Operand<B>>, Rescale) {
    let (scale, zero) = requantize.map_or((None, None), |(scale, zero)| (Some(scale), zero));
    let rescale = Rescale {
        dtype,
        bias: bias.is_some(),
        residual: residual.is_some(),
        activation,
        zero: zero.is_some(),
    };
    (bias.into_iter().chain(residual).chain(scale).chain(zero), rescale)
}

impl<B: BufferLike> Command<B> {
    /// `dst = (a - a_zero) × (b - b_zero)` over the last two axes, from 8-bit integers to `i32`.
    ///
    /// `a` is `[…, m, k]` and `b` is `[…, k, n]`, each `u8` or `i8`. `dst` is `[…, m, n]`; leading axes broadcast to
    /// those of `dst`. A zero point has the type of its matrix. It is one number, or one for each row of `a` (`[m]`
    /// or `[…, m, 1]`), or one for each column of `b` (`[n]` or `[…, 1, n]`). Results are exact; sums beyond `i32`
    /// wrap around.
    ///
    /// # Errors
    ///
    /// Ranks below 2, sizes or types that do not match, or operands that do not fit their buffers or
    /// overlap.
    pub fn matmul_integer(
        dst: Operand<B>,
        a: Operand<B>,
        b: Operand<B>,
        a_zero: Option<Operand<B>>,
        b_zero: Option<Operand<B>>,
    ) -> Result<Self> {
        let (has_a, has_b) = (a_zero.is_some(), b_zero.is_some());
        let op = Op::MatMulInteger { a_zero: has_a, b_zero: has_b, rescale: None };
        Self::new(op, [dst], [a, b].into_iter().chain(a_zero).chain(b_zero))
    }

    /// `dst = activation(a × b + bias + residual)`, where `a` and `b` are quantized to 8 bits. `dst` is floating
    /// point, or quantized to 8 bits with its own scale and zero point.
    ///
    /// The matrices are those of [`matmul_integer`](Self::matmul_integer). A scale has a shape that a zero point of
    /// its matrix may have. The exact sum is rounded to `f32` and multiplied by the product of both scales;
    /// everything after that is done in `f32`.
    ///
    /// The bias broadcasts to `dst`. A bias of `i32` is added to the sum. Other biases and the residual have the type
    /// of `dst`, or `f32` if `dst` has 8 bits. For 8 bits the result is divided by the scale of `dst`, as
    /// [`quantize`](Self::quantize) does; that scale and zero point are one number each.
    ///
    /// # Errors
    ///
    /// As for [`matmul_integer`](Self::matmul_integer), or scales of another shape or type.
    pub fn matmul_scaled(
        dst: Operand<B>,
        a: Quantized<B>,
        b: Quantized<B>,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
        activation: Activation,
        requantize: Option<(Operand<B>, Option<Operand<B>>)>,
    ) -> Result<Self> {
        let (extras, rescale) = extras(dst.layout.dtype(), bias, residual, activation, requantize);
        let (a_zero, b_zero) = (a.zero.is_some(), b.zero.is_some());
        let op = Op::MatMulInteger { a_zero, b_zero, rescale: Some(rescale) };
        let sides = [a.values, b.values].into_iter().chain(a.zero).chain(b.zero);
        Self::new(op, [dst], sides.chain([a.scale, b.scale]).chain(extras))
    }

    /// `dst = activation(conv(src, weight) + bias + residual)`, where `src` and `weight` are quantized to 8 bits. It
    /// is computed as in [`matmul_scaled`](Self::matmul_scaled).
    ///
    /// Shapes are those of [`conv_integer`](Self::conv_integer). A scale has a shape that a zero point of its operand
    /// may have. `bias` is `[outputs]`, and `residual` broadcasts to `dst`.
    ///
    /// # Errors
    ///
    /// As for [`conv_integer`](Self::conv_integer), or scales of another shape or type.
    #[allow(clippy::too_many_arguments)]
    pub fn conv_scaled(
        dst: Operand<B>,
        src: Quantized<B>,
        weight: Quantized<B>,
        bias: Option<Operand<B>>,
        residual: Option<Operand<B>>,
        params: ConvParams,
        activation: Activation,
        requantize: Option<(Operand<B>, Option<Operand<B>>)>,
    ) -> Result<Self> {
        let (extras, rescale) = extras(dst.layout.dtype(), bias, residual, activation, requantize);
        let op = Op::ConvInteger {
            params: Box::new(params),
            src_zero: src.zero.is_some(),
            weight_zero: weight.zero.is_some(),
            rescale: Some(rescale),
        };
        let sides = [src.values, weight.values].into_iter().chain(src.zero).chain(weight.zero);
        Self::new(op, [dst], sides.chain([src.scale, weight.scale]).chain(extras))
    }
}

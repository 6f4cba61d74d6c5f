//! Matrix products of 8-bit integers, and what is made of their sums.

use super::{Activation, BufferLike, Command, ConvParams, Op, Operand};
use crate::{DType, Result};

/// What is made of each exact sum of a product of 8-bit integers before it is stored:
/// `activation(a_scale · b_scale · sum + bias + residual)`, in floating point or as 8-bit integers again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rescale {
    /// The element type of `dst`: `f32`, `f16` or `bf16`; or `u8` or `i8`, which have `dst_scale`.
    pub dtype: DType,
    /// Whether a bias is given: of `i32`, which is added to the sum, or in floating point.
    pub bias: bool,
    /// Whether a residual is given.
    pub residual: bool,
    /// Applied last, before numbers become integers again.
    pub activation: Activation,
    /// Whether `dst_zero` is given. Only integers have one.
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
    /// The zero point, which counts as 0 where it is absent.
    pub zero: Option<Operand<B>>,
}

/// What sums meet behind the scales, and what says so.
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
    /// `dst = (a - a_zero) × (b - b_zero)` over the last two axes, of 8-bit integers to `i32`.
    ///
    /// `a` is `[…, m, k]`, `b` is `[…, k, n]`, each `u8` or `i8`; leading axes broadcast to those of
    /// `dst`, which is `[…, m, n]`. A zero point has the type of its matrix and is one number, one for
    /// each row of `a` (`[m]` or `[…, m, 1]`), or one for each column of `b` (`[n]` or `[…, 1, n]`).
    /// Results are exact; sums beyond `i32` wrap around.
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

    /// `dst = activation(a × b + bias + residual)` of 8-bit integers that stand for numbers: in floating point,
    /// or as 8-bit integers again, with the scale and zero point of `dst`.
    ///
    /// Factors are those of [`matmul_integer`](Self::matmul_integer), and the scale of each has the shape that
    /// its zero point may have. Sums are exact, and rounded to `f32`; that, times the product of both scales, is
    /// what the rest is done to, in `f32`. A bias broadcasts to `dst`. One of `i32` is added to the sums; others,
    /// and the residual, have the type of `dst`, or `f32` where that is 8 bits. To 8 bits, the result is divided
    /// by the scale of `dst` as [`quantize`](Self::quantize) does; scale and zero point are one number each.
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

    /// `dst = activation(conv(src, weight) + bias + residual)` of 8-bit integers that stand for numbers, made as
    /// by [`matmul_scaled`](Self::matmul_scaled).
    ///
    /// Shapes are those of [`conv_integer`](Self::conv_integer), and the scale of each side has the shape that
    /// its zero point may have. `bias` is `[outputs]`, and `residual` broadcasts to `dst`.
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

//! Conversion to and from integers with a scale.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// `dst = src / scale + zero`, rounded with halves to even and saturated.
    ///
    /// `src` is floating point, `dst` is `u8` or `i8`. `scale` is `f32` and `zero`, which counts as 0
    /// where it is absent, has the type of `dst`; both have one element, or with an axis one for each
    /// index of that axis. The quotient is rounded, to `f32` (`f64` for an input of `f64`) and then to
    /// an integer, before the zero point is added. NaN becomes the zero point.
    ///
    /// # Errors
    ///
    /// Types or shapes that do not match, an axis that does not exist, or operands that do not fit
    /// their buffers or overlap.
    pub fn quantize(
        dst: Operand<B>,
        src: Operand<B>,
        scale: Operand<B>,
        zero: Option<Operand<B>>,
        axis: Option<usize>,
    ) -> Result<Self> {
        let (axis, dtype) = (axis.map(small), dst.layout.dtype());
        let op = Op::Quantize { axis, dtype, zero: zero.is_some() };
        Self::new(op, [dst], [src, scale].into_iter().chain(zero))
    }

    /// `dst = (src - zero) · scale`.
    ///
    /// `src` is `u8`, `i8` or `i32`, `dst` is floating point. `scale` and `zero` are as for
    /// [`quantize`](Self::quantize), with `zero` of the type of `src`. The difference is exact.
    ///
    /// # Errors
    ///
    /// As for [`quantize`](Self::quantize).
    pub fn dequantize(
        dst: Operand<B>,
        src: Operand<B>,
        scale: Operand<B>,
        zero: Option<Operand<B>>,
        axis: Option<usize>,
    ) -> Result<Self> {
        let (axis, dtype) = (axis.map(small), dst.layout.dtype());
        let op = Op::Dequantize { axis, dtype, zero: zero.is_some() };
        Self::new(op, [dst], [src, scale].into_iter().chain(zero))
    }

    /// Eight-bit integers of `src`, with the scale that takes all of it in, or one for each row along the last
    /// axis: ONNX's DynamicQuantizeLinear in one Command.
    ///
    /// `src` is `f32`, `f16` or `bf16`, and `scale` is `f32`: one element (`[]`), or with `rows` the shape of
    /// `src` with a last axis of size 1, which [`matmul_integer`](Self::matmul_integer) takes for a zero point.
    /// To `u8` the range is stretched to hold 0, `scale = (max - min) / 255`, and `zero`, of the shape of
    /// `scale`, is `-min / scale`. To `i8`, `scale = max |src| / 127`, and `zero` is absent. Elements are then
    /// those of [`quantize`](Self::quantize).
    ///
    /// Where all is 0, or nothing is there, `scale` is 1. NaN does not count for the range, and becomes the zero
    /// point. A range beyond `f32` has an infinite scale, and every element becomes the zero point.
    ///
    /// # Errors
    ///
    /// Types or shapes that do not match, rows of a `src` without axes, or operands that do not fit their
    /// buffers or overlap.
    pub fn dynamic_quantize(
        dst: Operand<B>,
        scale: Operand<B>,
        zero: Option<Operand<B>>,
        src: Operand<B>,
        rows: bool,
    ) -> Result<Self> {
        let op = Op::DynamicQuantize { rows, dtype: dst.layout.dtype() };
        Self::new(op, [dst, scale].into_iter().chain(zero), [src])
    }
}

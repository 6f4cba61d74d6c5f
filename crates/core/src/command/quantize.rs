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
}

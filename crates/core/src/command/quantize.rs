//! Conversion to and from integers with a scale.

use super::check::Check;
use super::conv::per_channel;
use super::{BufferLike, Command, Op, Operand};
use crate::{DType, Layout, Result};

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
        let check = Check("quantize");
        check.byte(&dst.layout)?;
        check.float(&src.layout)?;
        let stored = dst.layout.dtype();
        let inputs = scaled(&check, &dst, [src, scale], zero, axis, stored)?;
        Self::assemble(Op::Quantize { axis: axis.map(|a| a as u8) }, [dst], inputs)
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
        let check = Check("dequantize");
        check.float(&dst.layout)?;
        let stored = src.layout.dtype();
        check.that(matches!(stored, DType::U8 | DType::I8 | DType::I32), || {
            format!("needs u8, i8 or i32, got {stored}")
        })?;
        let inputs = scaled(&check, &dst, [src, scale], zero, axis, stored)?;
        Self::assemble(Op::Dequantize { axis: axis.map(|a| a as u8) }, [dst], inputs)
    }
}

/// Checks what both directions share, and broadcasts the scale and the zero point.
fn scaled<B>(
    check: &Check,
    dst: &Operand<B>,
    [src, scale]: [Operand<B>; 2],
    zero: Option<Operand<B>>,
    axis: Option<usize>,
    stored: DType,
) -> Result<impl Iterator<Item = Operand<B>> + use<B>> {
    check.same_shape(&src.layout, &dst.layout)?;
    check.dtype(&scale.layout, DType::F32)?;
    if let Some(zero) = &zero {
        check.dtype(&zero.layout, stored)?;
    }
    if let Some(axis) = axis {
        check.axis(axis, &dst.layout)?;
    }
    let scale = spread(check, scale, &dst.layout, axis)?;
    let zero = zero.map(|zero| spread(check, zero, &dst.layout, axis)).transpose()?;
    Ok([src, scale].into_iter().chain(zero))
}

fn spread<B>(
    check: &Check,
    parameter: Operand<B>,
    shape: &Layout,
    axis: Option<usize>,
) -> Result<Operand<B>> {
    if let Some(axis) = axis {
        return per_channel(check, parameter, shape, axis);
    }
    let layout = parameter.layout;
    check.that(layout.elements() == 1, || {
        format!("scale or zero has shape {:?}, needs one element", layout.shape())
    })?;
    let strides = [0; crate::MAX_RANK];
    let layout =
        Layout::strided(layout.dtype(), shape.shape(), &strides[..shape.rank()], layout.offset())?;
    Ok(Operand { buffer: parameter.buffer, layout })
}

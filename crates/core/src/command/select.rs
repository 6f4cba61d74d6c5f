//! Choosing between elements, and limiting them.

use super::{BufferLike, Command, Op, Operand};
use crate::{DType, Result, Scalar};

impl<B: BufferLike> Command<B> {
    /// `a` where the condition is true, else `b`. All three broadcast; `dst` may be one of them.
    ///
    /// # Errors
    ///
    /// A condition that is not `bool`, other types that differ, shapes that do not broadcast, or
    /// operands that do not fit their buffers or overlap.
    pub fn where_(
        dst: Operand<B>,
        condition: Operand<B>,
        a: Operand<B>,
        b: Operand<B>,
    ) -> Result<Self> {
        Self::new(Op::Where, [dst], [condition, a, b])
    }

    /// Limits each element of any number type to `min ..= max`. A side without a limit is open. NaN stays NaN. If
    /// `min` is above `max`, every other element becomes `max`. `src` broadcasts; `dst` may be `src`.
    ///
    /// A limit beyond the range of an integer type is no limit. For a floating-point type the limit is rounded to
    /// nearest.
    ///
    /// # Errors
    ///
    /// `bool`, types that differ, a limit that is NaN, a limit with a fraction for integers, a shape that does not
    /// broadcast, or operands that do not fit their buffers or overlap.
    pub fn clip(
        dst: Operand<B>,
        src: Operand<B>,
        min: Option<Scalar>,
        max: Option<Scalar>,
    ) -> Result<Self> {
        Self::new(Op::Clip { min, max }, [dst], [src])
    }
}

impl Op {
    /// Converts the limits of a clip to the type that is limited.
    pub(super) fn convert_limits(&mut self, dtype: DType) {
        if let Op::Clip { min, max } = self {
            [min, max].into_iter().flatten().for_each(|limit| *limit = in_type(*limit, dtype));
        }
    }
}

/// A limit converted to the type. One that is beyond an integer type becomes the type's lowest or highest number.
pub(super) fn in_type(limit: Scalar, dtype: DType) -> Scalar {
    if dtype.is_float() {
        return Scalar::Float(limit.as_f64());
    }
    let bits = 8 * dtype.size();
    let (low, high) = if dtype.is_signed() {
        (-1 << (bits - 1), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    };
    let limit: i128 = limit.as_i128().clamp(low, high);
    i64::try_from(limit).map_or(Scalar::UInt(limit as u64), Scalar::Int)
}

//! Choosing between elements, and limiting them.

use super::check::Check;
use super::{BufferLike, Command, Op, Operand};
use crate::{DType, Result, Scalar};

impl<B: BufferLike> Command<B> {
    /// `a` where the condition holds, else `b`. All three broadcast; `dst` may be one of them.
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
        let check = Check("where");
        check.dtype(&condition.layout, DType::Bool)?;
        check.same_dtype(&a.layout, &dst.layout)?;
        check.same_dtype(&b.layout, &dst.layout)?;
        let condition = check.broadcast(condition, &dst.layout)?;
        let a = check.broadcast(a, &dst.layout)?;
        let b = check.broadcast(b, &dst.layout)?;
        Self::assemble(Op::Where, [dst], [condition, a, b])
    }

    /// Limits each element of any number type to `min ..= max`; without a limit that side is open.
    /// NaN stays NaN, and where `min` is above `max` every other element becomes `max`. `src`
    /// broadcasts; `dst` may be `src`.
    ///
    /// A limit beyond the range of an integer type is no limit. For a floating-point type it is
    /// rounded to nearest.
    ///
    /// # Errors
    ///
    /// `bool`, types that differ, a limit that is NaN or, for integers, has a fraction, a shape that
    /// does not broadcast, or operands that do not fit their buffers or overlap.
    pub fn clip(
        dst: Operand<B>,
        src: Operand<B>,
        min: Option<Scalar>,
        max: Option<Scalar>,
    ) -> Result<Self> {
        let check = Check("clip");
        check.number(&src.layout)?;
        check.same_dtype(&dst.layout, &src.layout)?;
        let dtype = src.layout.dtype();
        let limit = |limit: Option<Scalar>| limit.map(|limit| in_type(&check, limit, dtype));
        let (min, max) = (limit(min).transpose()?, limit(max).transpose()?);
        let src = check.broadcast(src, &dst.layout)?;
        Self::assemble(Op::Clip { min, max }, [dst], [src])
    }
}

/// A limit as a number that the element type can hold.
fn in_type(check: &Check, limit: Scalar, dtype: DType) -> Result<Scalar> {
    let value = limit.as_f64();
    check.that(!value.is_nan(), || "a limit is NaN".into())?;
    if dtype.is_float() {
        return Ok(Scalar::Float(value));
    }
    check.that(value.is_infinite() || value.fract() == 0.0, || {
        format!("limit {limit} is not a whole number, as {dtype} is")
    })?;
    let (low, high) = match dtype {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::U8 => (u8::MIN.into(), u8::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    };
    Ok(Scalar::Int(limit.as_i64().clamp(low, high)))
}

//! Conversion to and from integers with a scale.

use super::{Fit, Shape};
use crate::{DType, Result};

pub(super) fn quantize<B>(fit: &mut Fit<'_, B>, axis: Option<u8>, dtype: DType) -> Result<()> {
    fit.wants_float(0)?;
    let byte = matches!(dtype, DType::U8 | DType::I8);
    fit.wants(byte, "dtype", || "u8 or i8".into(), dtype)?;
    scaled(fit, axis, dtype, dtype)
}

pub(super) fn dequantize<B>(fit: &mut Fit<'_, B>, axis: Option<u8>, dtype: DType) -> Result<()> {
    let stored = fit.dtype(0);
    if !matches!(stored, DType::U8 | DType::I8 | DType::I32) {
        return fit.misfit(0, "u8, i8 or i32");
    }
    fit.wants(dtype.is_float(), "dtype", || "a floating-point type".into(), dtype)?;
    scaled(fit, axis, dtype, stored)
}

/// What both directions share.
fn scaled<B>(fit: &mut Fit<'_, B>, axis: Option<u8>, dtype: DType, stored: DType) -> Result<()> {
    fit.wants_dtype(1, DType::F32)?;
    let shape = Shape::from_slice(fit.shape(0));
    if let Some(axis) = axis {
        fit.wants_axis(0, axis.into())?;
    }
    for place in 1..fit.inputs() {
        if place == 2 {
            fit.wants_dtype(place, stored)?;
        }
        match axis {
            Some(axis) => fit.spread(place, &shape, axis.into())?,
            None => fit.spread_one(place, &shape)?,
        }
    }
    fit.output(dtype, &shape)
}

pub(super) fn dynamic<B>(fit: &mut Fit<'_, B>, rows: bool, dtype: DType) -> Result<()> {
    if !matches!(fit.dtype(0), DType::F32 | DType::F16 | DType::BF16) {
        return fit.misfit(0, "f32, f16 or bf16");
    }
    fit.wants(matches!(dtype, DType::U8 | DType::I8), "dtype", || "u8 or i8".into(), dtype)?;
    let shape = Shape::from_slice(fit.shape(0));
    let mut each = Shape::new();
    if rows {
        if shape.is_empty() {
            return fit.misfit(0, "1 axis or more: rows along the last");
        }
        each = shape.clone();
        each[shape.len() - 1] = 1;
    }
    fit.output(dtype, &shape)?;
    fit.output(DType::F32, &each)?;
    if dtype == DType::U8 { fit.output(DType::U8, &each) } else { Ok(()) }
}

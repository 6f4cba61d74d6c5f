//! Quantization and dequantization.

use super::{Fit, Shape};
use crate::command::DynamicRange;
use crate::{DType, MAX_RANK, Result};

/// The axis of scales, and how many neighbors along it share a scale.
type ScaleAxis = (Option<u8>, Option<u32>);

pub(super) fn quantize<B>(fit: &mut Fit<'_, B>, scale_axis: ScaleAxis, dtype: DType) -> Result<()> {
    fit.wants_float(0)?;
    let small = matches!(dtype, DType::U8 | DType::I8 | DType::U16 | DType::I16);
    let fits = small || dtype.per_byte() == 2;
    fit.wants(fits, "dtype", || "u8, i8, u16, i16, u4, i4 or f4e2m1".into(), dtype)?;
    scaled(fit, scale_axis, dtype, dtype)
}

pub(super) fn dequantize<B>(
    fit: &mut Fit<'_, B>,
    scale_axis: ScaleAxis,
    dtype: DType,
) -> Result<()> {
    let stored = fit.dtype(0);
    let whole = matches!(stored, DType::U8 | DType::I8 | DType::U16 | DType::I16 | DType::I32);
    if !whole && stored.per_byte() == 1 {
        return fit.misfit(0, "u8, i8, u16, i16, i32, u4, i4 or f4e2m1");
    }
    fit.wants(dtype.is_float(), "dtype", || "a floating-point type".into(), dtype)?;
    scaled(fit, scale_axis, dtype, stored)
}

/// The rules of both directions.
fn scaled<B>(
    fit: &mut Fit<'_, B>,
    scale_axis: ScaleAxis,
    dtype: DType,
    stored: DType,
) -> Result<()> {
    if !matches!(fit.dtype(1), DType::F32 | DType::F16 | DType::BF16) {
        return fit.misfit(1, "f32, f16 or bf16");
    }
    if fit.inputs() > 2 {
        fit.wants_dtype(2, stored)?;
    }
    let shape = Shape::from_slice(fit.shape(0));
    let (axis, block) = scale_axis;
    if let Some(axis) = axis {
        fit.wants_axis(0, axis.into())?;
    }
    if let Some(block) = block {
        fit.wants(block > 0, "block", || "1 or more".into(), block)?;
        let Some(axis) = axis.map(usize::from) else {
            return fit.fail("axis", "one that has blocks", "none");
        };
        if shape.len() == MAX_RANK {
            return fit.misfit(0, format!("fewer than {MAX_RANK} axes, with blocks"));
        }
        let mut each = shape.clone();
        each[axis] = shape[axis].div_ceil(block as usize);
        (1..fit.inputs()).try_for_each(|place| fit.wants_shape(place, &each))?;
        return fit.output(dtype, &shape);
    }
    for place in 1..fit.inputs() {
        // Numbers of 4 bits are always dense. They are not broadcast; `PackedAxis` finds them.
        if fit.dtype(place).per_byte() == 2 {
            match axis.map(usize::from) {
                Some(axis) => fit.wants_shape(place, &[shape[axis]])?,
                None if fit.shape(place).iter().any(|&size| size != 1) => {
                    return fit.misfit(place, "one element");
                }
                None => {}
            }
            continue;
        }
        match axis {
            Some(axis) => fit.spread(place, &shape, axis.into())?,
            None => fit.spread_one(place, &shape)?,
        }
    }
    fit.output(dtype, &shape)
}

pub(super) fn dynamic<B>(fit: &mut Fit<'_, B>, range: DynamicRange, dtype: DType) -> Result<()> {
    if !matches!(fit.dtype(0), DType::F32 | DType::F16 | DType::BF16) {
        return fit.misfit(0, "f32, f16 or bf16");
    }
    fit.wants(matches!(dtype, DType::U8 | DType::I8), "dtype", || "u8 or i8".into(), dtype)?;
    let shape = Shape::from_slice(fit.shape(0));
    let mut each = Shape::new();
    match range {
        DynamicRange::Tensor => {}
        DynamicRange::Rows => {
            if shape.is_empty() {
                return fit.misfit(0, "1 axis or more: rows along the last");
            }
            each = shape.clone();
            each[shape.len() - 1] = 1;
        }
        DynamicRange::Parts { axis, parts } => {
            fit.wants_axis(0, axis.into())?;
            let size = shape[usize::from(axis)];
            let divides = parts > 0 && size.is_multiple_of(parts as usize);
            fit.wants(
                divides,
                "range",
                || format!("parts that divide the {size} of axis {axis}"),
                parts,
            )?;
            each.push(parts as usize);
        }
    }
    fit.output(dtype, &shape)?;
    fit.output(DType::F32, &each)?;
    if dtype == DType::U8 { fit.output(DType::U8, &each) } else { Ok(()) }
}

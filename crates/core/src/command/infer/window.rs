//! Convolution and pooling.

use super::{Fit, Shape, rescale};
use crate::command::pool::Window;
use crate::command::{ConvParams, DeformConvParams, MAX_SPATIAL, PoolKind, PoolParams, Rescale};
use crate::{DType, Result};

/// A size as a number wide enough that sums and products of a few do not overflow.
fn wide(size: usize) -> i128 {
    size as i128
}

/// The rules that all convolutions share: ranks, strides and taps. Returns the number of spatial axes.
fn common<B>(fit: &Fit<'_, B>, params: &ConvParams) -> Result<usize> {
    let spatial = usize::from(params.spatial);
    let known = (1..=MAX_SPATIAL).contains(&spatial);
    fit.wants(known, "spatial", || format!("1 to {MAX_SPATIAL} axes"), spatial)?;
    fit.wants_rank(0, spatial + 2, "[batch, channels, spatial…]")?;
    fit.wants_rank(1, spatial + 2, "channels of both sides, then the kernel")?;
    for axis in 0..spatial {
        fit.wants(params.stride[axis] > 0, "stride", || "1 or more".into(), 0)?;
        fit.wants(params.dilation[axis] > 0, "dilation", || "1 or more".into(), 0)?;
    }
    if fit.shape(1)[2..].contains(&0) {
        return fit.misfit(1, "a kernel with taps");
    }
    fit.wants(params.groups > 0, "groups", || "1 or more".into(), 0)?;
    Ok(spatial)
}

fn conv_shape<B>(fit: &Fit<'_, B>, params: &ConvParams) -> Result<Shape> {
    let spatial = common(fit, params)?;
    let (src, weight, groups) = (fit.shape(0), fit.shape(1), params.groups as usize);
    let (inputs, outputs) = (src[1], weight[0]);
    let splits = inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups);
    fit.wants(
        splits,
        "groups",
        || format!("a number that divides {inputs} channels and {outputs}"),
        groups,
    )?;
    if weight[1] != inputs / groups {
        let wanted = inputs / groups;
        let weight = format!("[outputs, {wanted}, kernel…] in {groups} groups");
        return fit.misfit(1, format!("{weight}, to fit an input of {inputs} channels"));
    }
    let mut shape = Shape::from_slice(&[src[0], outputs]);
    for axis in 0..spatial {
        let window = (wide(weight[axis + 2]) - 1) * i128::from(params.dilation[axis]) + 1;
        let padded = wide(src[axis + 2])
            + i128::from(params.pad_before[axis])
            + i128::from(params.pad_after[axis]);
        if window > padded {
            let expected =
                format!("{window} elements or more on spatial axis {axis}, padding counted");
            return fit.misfit(0, expected);
        }
        let windows = (padded - window) / i128::from(params.stride[axis]) + 1;
        shape.push(usize::try_from(windows).unwrap_or(usize::MAX));
    }
    Ok(shape)
}

/// Bias and residual, after source and weight.
fn sums<B>(fit: &mut Fit<'_, B>, shape: &[usize], bias: bool) -> Result<()> {
    let mut place = 2;
    if bias {
        fit.spread(place, shape, 1)?;
        place += 1;
    }
    (place..fit.inputs()).try_for_each(|place| fit.stretch(place, shape))
}

fn same_float<B>(fit: &Fit<'_, B>) -> Result<DType> {
    fit.wants_float(0)?;
    let dtype = fit.dtype(0);
    (1..fit.inputs()).try_for_each(|place| fit.wants_dtype(place, dtype))?;
    Ok(dtype)
}

pub(super) fn conv<B>(fit: &mut Fit<'_, B>, params: &ConvParams, bias: bool) -> Result<()> {
    let dtype = same_float(fit)?;
    let shape = conv_shape(fit, params)?;
    fit.output(dtype, &shape)?;
    sums(fit, &shape, bias)
}

pub(super) fn conv_transpose<B>(
    fit: &mut Fit<'_, B>,
    params: &ConvParams,
    bias: bool,
) -> Result<()> {
    let dtype = same_float(fit)?;
    let spatial = common(fit, params)?;
    let (src, weight, groups) = (fit.shape(0), fit.shape(1), params.groups as usize);
    let inputs = src[1];
    let splits = inputs.is_multiple_of(groups);
    fit.wants(splits, "groups", || format!("a number that divides {inputs} channels"), groups)?;
    if weight[0] != inputs {
        return fit.misfit(1, format!("[{inputs}, outputs / {groups}, kernel…]"));
    }
    let Some(outputs) = weight[1].checked_mul(groups) else {
        return fit.misfit(1, "fewer outputs");
    };
    let mut shape = Shape::from_slice(&[src[0], outputs]);
    for axis in 0..spatial {
        let size = (wide(src[axis + 2]) - 1) * i128::from(params.stride[axis])
            - i128::from(params.pad_before[axis])
            - i128::from(params.pad_after[axis])
            + (wide(weight[axis + 2]) - 1) * i128::from(params.dilation[axis])
            + 1
            + i128::from(params.output_padding[axis]);
        let Ok(size) = usize::try_from(size) else {
            return fit
                .misfit(0, format!("more elements than padding takes on spatial axis {axis}"));
        };
        shape.push(size);
    }
    fit.output(dtype, &shape)?;
    sums(fit, &shape, bias)
}

pub(super) fn deform_conv<B>(fit: &mut Fit<'_, B>, params: &DeformConvParams) -> Result<()> {
    let dtype = fit.dtype(0);
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return fit.misfit(0, "f32, f16 or bf16");
    }
    (1..fit.inputs()).try_for_each(|place| fit.wants_dtype(place, dtype))?;
    let spatial = params.conv.spatial;
    fit.wants(spatial == 2, "spatial", || "2 axes".into(), spatial)?;
    let shape = conv_shape(fit, &params.conv)?;
    let (groups, channels) = (params.offset_groups as usize, fit.shape(0)[1]);
    fit.wants(
        groups > 0 && channels.is_multiple_of(groups),
        "offset_groups",
        || format!("a number that divides {channels} channels"),
        groups,
    )?;
    fit.output(dtype, &shape)?;
    let kernel = &fit.shape(1)[2..];
    // A number that saturates here is no size of a tensor, so it is refused below.
    let moved = groups.saturating_mul(kernel[0]).saturating_mul(kernel[1]);
    let wanted = |channels| [shape[0], channels, shape[2], shape[3]];
    fit.wants_shape(2, &wanted(moved.saturating_mul(2)))?;
    if params.bias {
        fit.spread(3, &shape, 1)?;
    }
    if params.mask { fit.wants_shape(fit.inputs() - 1, &wanted(moved)) } else { Ok(()) }
}

pub(super) fn conv_integer<B>(
    fit: &mut Fit<'_, B>,
    params: &ConvParams,
    [src_zero, weight_zero]: [bool; 2],
    rescale: Option<&Rescale>,
) -> Result<()> {
    fit.wants_byte(0)?;
    fit.wants_byte(1)?;
    let dtype = rescale::dtype(fit, rescale)?;
    let shape = conv_shape(fit, params)?;
    fit.output(dtype, &shape)?;
    let mut place = 2;
    if src_zero {
        fit.wants_dtype(place, fit.dtype(0))?;
        rescale::one(fit, place)?;
        place += 1;
    }
    if weight_zero {
        fit.wants_dtype(place, fit.dtype(1))?;
        fit.stretch(place, &shape[1..2])?;
        place += 1;
    }
    let Some(rescale) = rescale else { return Ok(()) };
    fit.wants_dtype(place, DType::F32)?;
    rescale::one(fit, place)?;
    fit.wants_dtype(place + 1, DType::F32)?;
    fit.stretch(place + 1, &shape[1..2])?;
    rescale::extras(fit, place + 2, rescale, |fit, bias| fit.spread(bias, &shape, 1), &shape)
}

pub(super) fn pool<B>(fit: &mut Fit<'_, B>, params: &PoolParams) -> Result<()> {
    match params.kind {
        PoolKind::Max => fit.wants_number(0)?,
        PoolKind::Average { .. } => {
            fit.wants_float(0)?;
            fit.wants(!params.indices, "indices", || "false for a mean".into(), params.indices)?;
        }
    }
    let spatial = usize::from(params.spatial);
    let known = (1..=MAX_SPATIAL).contains(&spatial);
    fit.wants(known, "spatial", || format!("1 to {MAX_SPATIAL} axes"), spatial)?;
    fit.wants_rank(0, spatial + 2, "[batch, channels, spatial…]")?;
    let from = Shape::from_slice(fit.shape(0));
    let mut shape = Shape::from_slice(&from[..2]);
    for axis in 0..spatial {
        for (name, value) in [
            ("kernel", params.kernel[axis]),
            ("stride", params.stride[axis]),
            ("dilation", params.dilation[axis]),
        ] {
            fit.wants(value > 0, name, || "1 or more".into(), value)?;
        }
        let (floor, ceil) = Window::new(params, axis).sizes(from[axis + 2]);
        let windows = if params.ceil { ceil } else { floor };
        if windows == 0 {
            let expected = format!("a window on spatial axis {axis}, padding counted");
            return fit.misfit(0, expected);
        }
        shape.push(usize::try_from(windows).unwrap_or(usize::MAX));
    }
    let empty = shape.contains(&0);
    for axis in 0..spatial {
        let (window, size) = (Window::new(params, axis), from[axis + 2]);
        if !empty && !window.all_have_elements(shape[axis + 2] as u128, size) {
            return fit.misfit(0, format!("an element in every window of spatial axis {axis}"));
        }
    }
    fit.output(fit.dtype(0), &shape)?;
    if params.indices { fit.output(DType::I64, &shape) } else { Ok(()) }
}

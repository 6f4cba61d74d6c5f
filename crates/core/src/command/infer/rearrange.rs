//! Padding, reversal, interpolation and the largest elements.

use super::reduce::same;
use super::{Fit, Shape};
use crate::command::{Axes, CoordinateMode, PadMode, PadParams, ResizeMode, ResizeParams};
use crate::{DType, Result};

pub(super) fn top_k<B>(fit: &mut Fit<'_, B>, axis: u8, k: usize) -> Result<()> {
    fit.wants_number(0)?;
    let axis = usize::from(axis);
    fit.wants_axis(0, axis)?;
    let mut shape = Shape::from_slice(fit.shape(0));
    let size = shape[axis];
    fit.wants(k <= size, "k", || format!("at most {size}, the size of axis {axis}"), k)?;
    shape[axis] = k;
    fit.output(fit.dtype(0), &shape)?;
    fit.output(DType::I64, &shape)
}

pub(super) fn pad<B>(fit: &mut Fit<'_, B>, params: &PadParams) -> Result<()> {
    let from = Shape::from_slice(fit.shape(0));
    let rank = from.len();
    let beyond =
        params.before[rank..].iter().chain(&params.after[rank..]).find(|&&width| width != 0);
    fit.wants(
        beyond.is_none(),
        "widths",
        || format!("0 beyond the {rank} axes of src"),
        beyond.unwrap_or(&0),
    )?;
    let mut shape = Shape::new();
    for (axis, &size) in from.iter().enumerate() {
        let (before, after) = (i128::from(params.before[axis]), i128::from(params.after[axis]));
        // What is left after cropping; neither crop may take more than there is.
        let left = size as i128 + before.min(0) + after.min(0);
        if left < 0 {
            return fit.misfit(0, format!("as many elements as are cropped from axis {axis}"));
        }
        let wanted = size as i128 + before + after;
        shape.push(usize::try_from(wanted).unwrap_or(usize::MAX));
    }
    if !matches!(params.mode, PadMode::Constant(_)) && !shape.contains(&0) {
        for (axis, &size) in from.iter().enumerate() {
            let left = size as i128
                + i128::from(params.before[axis].min(0))
                + i128::from(params.after[axis].min(0));
            if left == 0 {
                return fit.misfit(0, format!("something on axis {axis} to continue"));
            }
        }
    }
    fit.output(fit.dtype(0), &shape)
}

pub(super) fn reverse<B>(fit: &mut Fit<'_, B>, axes: Axes, batch_axis: Option<u8>) -> Result<()> {
    let rank = fit.input(0).rank();
    let beyond = axes.iter().find(|&axis| axis >= rank);
    fit.wants(beyond.is_none(), "axes", || format!("below {rank}"), beyond.unwrap_or(0))?;
    if let Some(batch) = batch_axis {
        let batch = usize::from(batch);
        let apart = batch < rank && !axes.contains(batch);
        fit.wants(apart, "batch_axis", || format!("below {rank}, and not reversed"), batch)?;
        fit.wants(axes.len() == 1, "axes", || "one axis that has lengths".into(), axes.len())?;
        fit.wants_index(1)?;
        fit.wants_shape(1, &[fit.shape(0)[batch]])?;
    }
    same(fit)
}

pub(super) fn resize<B>(fit: &mut Fit<'_, B>, params: &ResizeParams) -> Result<()> {
    if !matches!(params.mode, ResizeMode::Nearest(_)) {
        fit.wants_number(0)?;
    }
    if let ResizeMode::Cubic(coefficient) = params.mode {
        let finite = coefficient.is_finite();
        fit.wants(finite, "mode", || "a finite coefficient".into(), coefficient)?;
    }
    let from = Shape::from_slice(fit.shape(0));
    let (sizes, beyond) = params.sizes.split_at(from.len());
    let beyond = beyond.iter().find(|&&size| size != 1);
    fit.wants(
        beyond.is_none(),
        "sizes",
        || format!("1 beyond the {} axes of src", from.len()),
        beyond.unwrap_or(&1),
    )?;
    let empty = sizes.contains(&0);
    if fit.input(0).is_empty() && !empty {
        return fit.misfit(0, "something to interpolate");
    }
    for (axis, &size) in from.iter().enumerate() {
        let (scale, (start, end)) = (params.scales[axis], params.region[axis]);
        let exact = size as f64 * scale;
        // The filter's width is one over the scale, so a tiny scale would have no bound on its work.
        let sound = scale.is_finite() && scale > 0.0 && (exact >= 0.5 || empty);
        fit.wants(sound, "scales", || format!("a scale for axis {axis} of size {size}"), scale)?;
        if params.coordinates == CoordinateMode::CropAndResize {
            if !(start.is_finite() && end.is_finite()) {
                let expected = format!("finite numbers on axis {axis}");
                return fit.fail("region", expected, format!("{start} to {end}"));
            }
            continue;
        }
        // If the size was computed from the scale, it was rounded in some way. If the scale was computed from the
        // size, it is exact.
        let fits = (exact - sizes[axis] as f64).abs() < 1.0 + 1e-9 * exact;
        let expected =
            || format!("about {exact} on axis {axis}, which is {size} scaled by {scale}");
        fit.wants(fits, "sizes", expected, sizes[axis])?;
    }
    fit.output(fit.dtype(0), sizes)
}

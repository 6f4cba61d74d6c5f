//! Normalization.

use super::reduce::same;
use super::{Fit, Shape};
use crate::{DType, Result};

/// Norms over the last axes. Weight and bias broadcast to the shape of those axes. `moments` have one number for each
/// row.
pub(super) fn trailing<B>(
    fit: &mut Fit<'_, B>,
    axes: u8,
    epsilon: f32,
    moments: bool,
) -> Result<()> {
    start(fit, epsilon)?;
    let (rank, axes) = (fit.input(0).rank(), usize::from(axes));
    fit.wants((1..=rank).contains(&axes), "axes", || format!("1 to {rank}"), axes)?;
    let normalized = Shape::from_slice(&fit.shape(0)[rank - axes..]);
    for place in 1..fit.inputs() {
        fit.wants_dtype(place, fit.dtype(0))?;
        if fit.shape(place) != &normalized[..] {
            fit.stretch(place, &normalized)?;
        }
    }
    same(fit)?;
    if moments {
        let mut shape = Shape::from_slice(fit.shape(0));
        shape[rank - axes..].fill(1);
        fit.output(DType::F32, &shape)?;
        fit.output(DType::F32, &shape)?;
    }
    Ok(())
}

/// Norms over groups of channels. Weight and bias have one number for each channel.
pub(super) fn groups<B>(fit: &mut Fit<'_, B>, groups: u32, epsilon: f32) -> Result<()> {
    start(fit, epsilon)?;
    let &[_, channels, ..] = fit.shape(0) else {
        return fit.misfit(0, "[batch, channels, …]");
    };
    let fits = groups > 0 && channels.is_multiple_of(groups as usize);
    fit.wants(fits, "groups", || format!("a number that divides {channels} channels"), groups)?;
    for place in 1..fit.inputs() {
        fit.wants_dtype(place, fit.dtype(0))?;
        fit.wants_shape(place, &[channels])?;
    }
    same(fit)
}

fn start<B>(fit: &Fit<'_, B>, epsilon: f32) -> Result<()> {
    fit.wants_float(0)?;
    fit.wants(epsilon >= 0.0, "epsilon", || "0 or more".into(), epsilon)
}

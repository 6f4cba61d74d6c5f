//! Reading and writing by index.

use super::reduce::same;
use super::{Fit, Shape};
use crate::Result;
use crate::command::ScatterReduction;

pub(super) fn gather<B>(fit: &mut Fit<'_, B>, axis: usize) -> Result<()> {
    fit.wants_axis(0, axis)?;
    fit.wants_index(1)?;
    let (before, behind) = fit.shape(0).split_at(axis);
    let shape: Shape = before.iter().chain(fit.shape(1)).chain(&behind[1..]).copied().collect();
    fit.output(fit.dtype(0), &shape)
}

/// A gather along the first axis.
pub(super) fn embedding<B>(fit: &mut Fit<'_, B>) -> Result<()> {
    if fit.input(0).rank() == 0 {
        return fit.misfit(0, "an axis of rows");
    }
    gather(fit, 0)
}

pub(super) fn gather_elements<B>(fit: &mut Fit<'_, B>, axis: u8) -> Result<()> {
    inside(fit, axis)?;
    let shape = Shape::from_slice(fit.shape(1));
    fit.output(fit.dtype(0), &shape)
}

/// Checks indices of single elements: they have the rank of the input and are no larger than it, except on the axis.
fn inside<B>(fit: &Fit<'_, B>, axis: u8) -> Result<()> {
    fit.wants_axis(0, axis.into())?;
    fit.wants_index(1)?;
    let (src, indices) = (fit.shape(0), fit.shape(1));
    let fits = indices.len() == src.len()
        && (0..src.len()).all(|other| other == usize::from(axis) || indices[other] <= src[other]);
    if fits {
        return Ok(());
    }
    fit.misfit(1, format!("at most {src:?}, but on axis {axis}"))
}

/// The number of axes before the tuples, and the length of a tuple.
fn tuples<B>(fit: &Fit<'_, B>, batch_axes: usize) -> Result<(usize, usize)> {
    fit.wants_index(1)?;
    let most = fit.input(0).rank().saturating_sub(batch_axes);
    match fit.shape(1).split_last() {
        Some((&tuple, leading)) if (1..=most).contains(&tuple) => Ok((leading.len(), tuple)),
        _ => fit.misfit(1, format!("tuples of 1 to {most} on the last axis")),
    }
}

pub(super) fn gather_nd<B>(fit: &mut Fit<'_, B>, batch_axes: u8) -> Result<()> {
    let batch = usize::from(batch_axes);
    let (leading, tuple) = tuples(fit, batch)?;
    let (src, indices) = (fit.shape(0), fit.shape(1));
    fit.wants(batch <= leading, "batch_axes", || format!("at most {leading}"), batch)?;
    if src[..batch] != indices[..batch] {
        return fit.misfit(1, format!("{:?} on the first {batch} axes", &src[..batch]));
    }
    let shape: Shape = indices[..leading].iter().chain(&src[batch + tuple..]).copied().collect();
    fit.output(fit.dtype(0), &shape)
}

fn updates<B>(fit: &Fit<'_, B>, reduction: ScatterReduction) -> Result<()> {
    let dtype = fit.dtype(0);
    if !reduction.takes(dtype) {
        return fit.misfit(0, format!("a type that {reduction:?} has a meaning for"));
    }
    fit.wants_dtype(2, dtype)
}

pub(super) fn scatter_elements<B>(
    fit: &mut Fit<'_, B>,
    axis: u8,
    reduction: ScatterReduction,
) -> Result<()> {
    inside(fit, axis)?;
    updates(fit, reduction)?;
    fit.wants_shape(2, fit.shape(1))?;
    same(fit)
}

pub(super) fn scatter_nd<B>(fit: &mut Fit<'_, B>, reduction: ScatterReduction) -> Result<()> {
    let (leading, tuple) = tuples(fit, 0)?;
    updates(fit, reduction)?;
    let (src, indices) = (fit.shape(0), fit.shape(1));
    let shape: Shape = indices[..leading].iter().chain(&src[tuple..]).copied().collect();
    fit.wants_shape(2, &shape)?;
    same(fit)
}

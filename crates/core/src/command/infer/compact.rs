//! Operations whose number of results depends on the data. Outputs have room for the largest number.

use super::{Fit, Shape};
use crate::size::product;
use crate::{DType, Result};

fn count<B>(fit: &mut Fit<'_, B>) -> Result<()> {
    fit.output(DType::I64, &[1])
}

pub(super) fn nonzero<B>(fit: &mut Fit<'_, B>) -> Result<()> {
    let src = fit.input(0);
    let shape = [src.rank(), src.elements()];
    fit.output(DType::I64, &shape)?;
    count(fit)
}

/// The axis and its size; without an axis, the number of all elements.
fn along<B>(fit: &Fit<'_, B>, axis: Option<u8>) -> Result<(Option<usize>, usize)> {
    let Some(axis) = axis else { return Ok((None, fit.input(0).elements())) };
    let axis = usize::from(axis);
    fit.wants_axis(0, axis)?;
    Ok((Some(axis), fit.shape(0)[axis]))
}

/// The shape of the first input with `count` as the size of the axis; without an axis, `[count]`.
fn taken<B>(fit: &Fit<'_, B>, axis: Option<usize>, count: usize) -> Shape {
    let Some(axis) = axis else { return Shape::from_slice(&[count]) };
    let mut shape = Shape::from_slice(fit.shape(0));
    shape[axis] = count;
    shape
}

pub(super) fn compress<B>(fit: &mut Fit<'_, B>, axis: Option<u8>) -> Result<()> {
    let (axis, size) = along(fit, axis)?;
    fit.wants_dtype(1, DType::Bool)?;
    fit.wants_rank(1, 1, "conditions")?;
    let conditions = fit.shape(1)[0];
    if conditions > size {
        return fit.misfit(1, format!("at most {size} conditions"));
    }
    let shape = taken(fit, axis, conditions);
    fit.output(fit.dtype(0), &shape)?;
    count(fit)
}

pub(super) fn unique<B>(fit: &mut Fit<'_, B>, axis: Option<u8>) -> Result<()> {
    let (axis, size) = along(fit, axis)?;
    let shape = taken(fit, axis, size);
    fit.output(fit.dtype(0), &shape)?;
    for _ in 0..3 {
        fit.output(DType::I64, &[size])?;
    }
    count(fit)
}

pub(super) fn suppress<B>(
    fit: &mut Fit<'_, B>,
    most: usize,
    overlap: f32,
    score: Option<f32>,
) -> Result<()> {
    fit.wants(!overlap.is_nan(), "overlap", || "a number".into(), overlap)?;
    let score = score.unwrap_or(0.0);
    fit.wants(!score.is_nan(), "score", || "a number".into(), score)?;
    for place in 0..2 {
        fit.wants_dtype(place, DType::F32)?;
    }
    let &[batch, boxes, 4] = fit.shape(0) else {
        return fit.misfit(0, "3 axes: batch, boxes and 4 numbers");
    };
    let &[batches, classes, scores] = fit.shape(1) else {
        return fit.misfit(1, "3 axes: batch, classes and boxes");
    };
    if (batches, scores) != (batch, boxes) {
        return fit.misfit(1, format!("the shape [{batch}, classes, {boxes}]"));
    }
    fit.output(DType::I64, &[product(&[batch, classes, boxes.min(most)]), 3])?;
    count(fit)
}

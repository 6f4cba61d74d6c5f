//! Reductions, running sums and softmax.

use super::{Fit, Shape};
use crate::Result;
use crate::command::{Axes, ReduceOp};

pub(super) fn reduce<B>(fit: &mut Fit<'_, B>, op: ReduceOp, axes: Axes) -> Result<()> {
    let Some(dtype) = op.output(fit.dtype(0)) else {
        return fit.misfit(0, format!("a type that {op:?} has a meaning for"));
    };
    let rank = fit.input(0).rank();
    let beyond = axes.iter().find(|&axis| axis >= rank);
    fit.wants(beyond.is_none(), "axes", || format!("below {rank}"), beyond.unwrap_or(0))?;
    if op.is_index() {
        fit.wants(axes.len() == 1, "axes", || format!("one axis for {op:?}"), axes.len())?;
    }
    let mut shape = Shape::from_slice(fit.shape(0));
    let nothing = axes.iter().any(|axis| shape[axis] == 0);
    axes.iter().for_each(|axis| shape[axis] = 1);
    if nothing && !op.has_identity() && shape.iter().all(|&size| size > 0) {
        return fit.misfit(0, format!("elements to combine: {op:?} of none has no value"));
    }
    fit.output(dtype, &shape)
}

pub(super) fn cumsum<B>(fit: &mut Fit<'_, B>, axis: u8) -> Result<()> {
    fit.wants_number(0)?;
    fit.wants_axis(0, axis.into())?;
    same(fit)
}

pub(super) fn softmax<B>(fit: &mut Fit<'_, B>, axis: u8) -> Result<()> {
    fit.wants_float(0)?;
    fit.wants_axis(0, axis.into())?;
    same(fit)
}

/// The output has the type and shape of the first input.
pub(super) fn same<B>(fit: &mut Fit<'_, B>) -> Result<()> {
    let input = *fit.input(0);
    fit.output(input.dtype(), input.shape())
}

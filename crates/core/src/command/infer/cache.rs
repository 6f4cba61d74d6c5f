//! Caches of keys and values, and positions in them.

use super::reduce::same;
use super::{Fit, Shape};
use crate::Result;

pub(super) fn write<B>(fit: &mut Fit<'_, B>, axis: usize, positions: bool) -> Result<()> {
    fit.wants_axis(0, axis)?;
    fit.wants(axis > 0, "axis", || "above 0, which is the batch".into(), axis)?;
    fit.wants_dtype(1, fit.dtype(0))?;
    let (cache, update) = (fit.shape(0), fit.shape(1));
    let longest = cache[axis];
    let mut shape = Shape::from_slice(cache);
    shape[axis] = update.get(axis).copied().unwrap_or(longest).min(longest);
    fit.wants_shape(1, &shape)?;
    if positions {
        fit.wants_index(2)?;
        fit.wants_shape(2, &shape[..1])?;
    }
    same(fit)
}

pub(super) fn rope<B>(fit: &mut Fit<'_, B>, positions: bool) -> Result<()> {
    fit.wants_float(0)?;
    fit.wants_rank(0, 4, "[batch, heads, length, size]")?;
    let [batch, _, length, size] = std::array::from_fn(|axis| fit.shape(0)[axis]);
    for place in [1, 2] {
        fit.wants_dtype(place, fit.dtype(0))?;
    }
    if positions {
        fit.wants_rank(1, 2, "[most, pairs]")?;
        fit.wants_index(3)?;
        fit.wants_shape(3, &[batch, length])?;
    } else {
        fit.wants_rank(1, 3, "[batch, length, pairs]")?;
        fit.wants_shape(1, &[batch, length, fit.shape(1)[2]])?;
    }
    let pairs = fit.shape(1).last().copied().unwrap_or(0);
    if pairs > size / 2 {
        return fit.misfit(1, format!("at most {} pairs in a row of {size}", size / 2));
    }
    fit.wants_shape(2, fit.shape(1))?;
    same(fit)
}

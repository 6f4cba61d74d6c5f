//! Attention.

use super::Fit;
use crate::command::AttentionParams;
use crate::{DType, Result};

pub(super) fn attention<B>(fit: &mut Fit<'_, B>, params: &AttentionParams) -> Result<()> {
    fit.wants_float(0)?;
    let dtype = fit.dtype(0);
    for place in 0..3 {
        fit.wants_dtype(place, dtype)?;
        fit.wants_rank(place, 4, "[batch, heads, length, size]")?;
    }
    fit.wants(params.scale.is_finite(), "scale", || "a finite number".into(), params.scale)?;
    if let Some(softcap) = params.softcap {
        let fits = softcap.is_finite() && softcap > 0.0;
        fit.wants(fits, "softcap", || "a positive number".into(), softcap)?;
    }
    let axes = |place: usize| -> [usize; 4] { std::array::from_fn(|axis| fit.shape(place)[axis]) };
    let ([batch, heads, queries, size], [_, key_heads, keys, _]) = (axes(0), axes(1));
    let value_size = axes(2)[3];
    fit.wants_shape(1, &[batch, key_heads, keys, size])?;
    fit.wants_shape(2, &[batch, key_heads, keys, value_size])?;
    if heads != 0 && (key_heads == 0 || !heads.is_multiple_of(key_heads)) {
        return fit.misfit(1, format!("a number of heads that divides {heads}"));
    }
    fit.output(dtype, &[batch, heads, queries, value_size])?;
    if params.mask {
        if !matches!(fit.dtype(3), DType::Bool) {
            fit.wants_dtype(3, dtype)?;
        }
        fit.stretch(3, &[batch, heads, queries, keys])?;
    }
    if params.lengths {
        let place = 3 + usize::from(params.mask);
        fit.wants_index(place)?;
        fit.wants_shape(place, &[batch])?;
    }
    Ok(())
}

//! Rescaling of exact sums of integers.

use super::Fit;
use crate::command::Rescale;
use crate::{DType, Layout, Result};

/// The type of the output.
pub(super) fn dtype<B>(fit: &Fit<'_, B>, rescale: Option<&Rescale>) -> Result<DType> {
    let Some(&Rescale { dtype, zero, .. }) = rescale else { return Ok(DType::I32) };
    let made = matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::U8 | DType::I8);
    fit.wants(made, "dtype", || "f32, f16, bf16, u8 or i8".into(), dtype)?;
    let fits = !zero || matches!(dtype, DType::U8 | DType::I8);
    fit.wants(fits, "zero", || "false for floating point".into(), zero)?;
    Ok(dtype)
}

/// Checks that an input has one element.
pub(super) fn one<B>(fit: &mut Fit<'_, B>, place: usize) -> Result<()> {
    let found = *fit.input(place);
    if found.elements() != 1 {
        return fit.misfit(place, "one element");
    }
    fit.set_input(place, Layout::strided(found.dtype(), &[1], &[0], found.offset())?);
    Ok(())
}

/// Checks bias, residual, and the scale and zero point of the output. They begin at input `place`.
pub(super) fn extras<B>(
    fit: &mut Fit<'_, B>,
    mut place: usize,
    rescale: &Rescale,
    bias: impl FnOnce(&mut Fit<'_, B>, usize) -> Result<()>,
    shape: &[usize],
) -> Result<()> {
    let computed = if rescale.is_byte() { DType::F32 } else { rescale.dtype };
    if rescale.bias {
        if fit.dtype(place) != DType::I32 && fit.dtype(place) != computed {
            return fit.misfit(place, format!("i32 or {computed}"));
        }
        bias(fit, place)?;
        place += 1;
    }
    if rescale.residual {
        fit.wants_dtype(place, computed)?;
        fit.stretch(place, shape)?;
        place += 1;
    }
    if rescale.is_byte() {
        fit.wants_dtype(place, DType::F32)?;
        one(fit, place)?;
        place += 1;
    }
    if rescale.zero {
        fit.wants_dtype(place, rescale.dtype)?;
        one(fit, place)?;
    }
    Ok(())
}

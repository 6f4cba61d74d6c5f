//! Fills, evenly spaced numbers, random numbers, transfers and the clock.

use super::Fit;
use crate::command::{Distribution, HostBytes, IotaParams, TensorSpec};
use crate::{DType, Result};

/// The parameter says what the output is.
pub(super) fn given<B>(fit: &mut Fit<'_, B>, spec: &TensorSpec) -> Result<()> {
    fit.output(spec.dtype(), spec.shape())
}

pub(super) fn iota<B>(fit: &mut Fit<'_, B>, params: &IotaParams) -> Result<()> {
    let IotaParams { spec, axis, start: _, step: _ } = params;
    let number = spec.dtype().is_number();
    fit.wants(number, "dst", || "a number type".into(), spec)?;
    let rank = spec.shape().len();
    fit.wants(
        usize::from(*axis) < rank,
        "axis",
        || format!("below {rank}, the rank of dst"),
        axis,
    )?;
    given(fit, spec)
}

pub(super) fn fill<B>(fit: &mut Fit<'_, B>, spec: &TensorSpec) -> Result<()> {
    let computed = !spec.dtype().is_storage();
    fit.wants(computed, "dst", || "a type that is computed with".into(), spec)?;
    given(fit, spec)
}

pub(super) fn random<B>(
    fit: &mut Fit<'_, B>,
    distribution: Distribution,
    spec: &TensorSpec,
) -> Result<()> {
    let (first, second) = match distribution {
        Distribution::Uniform { low, high } => (low, high),
        Distribution::Normal { mean, deviation } => (mean, deviation),
    };
    if !(first.is_finite() && second.is_finite()) {
        return fit.fail("distribution", "finite numbers", format!("{distribution:?}"));
    }
    let float = spec.dtype().is_float();
    fit.wants(float, "dst", || "a floating-point type".into(), spec)?;
    given(fit, spec)
}

pub(super) fn upload<B>(fit: &mut Fit<'_, B>, source: &HostBytes, spec: &TensorSpec) -> Result<()> {
    source.check_backed()?;
    let bytes = spec.layout()?.dense_bytes();
    if source.len() != bytes {
        let found = format!("{} bytes", source.len());
        return fit.fail("source", format!("{bytes} bytes for {spec}"), found);
    }
    given(fit, spec)
}

pub(super) fn download<B>(fit: &mut Fit<'_, B>, target: &HostBytes) -> Result<()> {
    target.check_backed()?;
    let bytes = fit.input(0).dense_bytes();
    if target.len() != bytes {
        let found = format!("{} bytes", target.len());
        return fit.fail("target", format!("room for {bytes} bytes"), found);
    }
    Ok(())
}

pub(super) fn timestamp<B>(fit: &mut Fit<'_, B>) -> Result<()> {
    match fit.given() {
        Some(given) if given.dtype() == DType::I64 && given.elements() == 1 => Ok(()),
        Some(_) => fit.output_misfit(0, "one i64"),
        None => fit.output(DType::I64, &[1]),
    }
}

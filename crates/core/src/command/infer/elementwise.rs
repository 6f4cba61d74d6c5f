//! Functions of single elements.

use super::Fit;
use crate::command::{BinaryOp, Chain, UnaryOp};
use crate::{DType, Result, Scalar};

pub(super) fn copy<B>(fit: &mut Fit<'_, B>, dtype: DType) -> Result<()> {
    let from = fit.dtype(0);
    let (stored, other) = if dtype.is_storage() { (dtype, from) } else { (from, dtype) };
    if stored.is_storage() && dtype != from {
        let whole = matches!(stored, DType::I4 | DType::U4);
        let short = matches!(other, DType::F32 | DType::F16 | DType::BF16);
        let fits = short || (whole && other.is_int());
        if !fits {
            let integers = if whole { ", an integer" } else { "" };
            return fit.misfit(0, format!("f32, f16{integers} or bf16 on the way to {dtype}"));
        }
    }
    fit.elementwise(dtype)
}

pub(super) fn unary<B>(fit: &mut Fit<'_, B>, op: UnaryOp) -> Result<()> {
    match op.output(fit.dtype(0)) {
        Some(dtype) => fit.elementwise(dtype),
        None => fit.misfit(0, format!("a type that {op:?} has a meaning for")),
    }
}

pub(super) fn binary<B>(fit: &mut Fit<'_, B>, op: BinaryOp) -> Result<()> {
    let dtype = fit.dtype(0);
    let Some(output) = op.output(dtype) else {
        return fit.misfit(0, format!("a type that {op:?} has a meaning for"));
    };
    fit.wants_dtype(1, dtype)?;
    fit.elementwise(output)
}

pub(super) fn choose<B>(fit: &mut Fit<'_, B>) -> Result<()> {
    fit.wants_dtype(0, DType::Bool)?;
    let dtype = fit.dtype(1);
    fit.wants_dtype(2, dtype)?;
    fit.elementwise(dtype)
}

pub(super) fn clip<B>(
    fit: &mut Fit<'_, B>,
    min: Option<Scalar>,
    max: Option<Scalar>,
) -> Result<()> {
    fit.wants_number(0)?;
    let dtype = fit.dtype(0);
    for (name, limit) in [("min", min), ("max", max)] {
        let Some(limit) = limit else { continue };
        let value = limit.as_f64();
        fit.wants(!value.is_nan(), name, || "a number".into(), limit)?;
        let whole = dtype.is_float() || value.is_infinite() || value.fract() == 0.0;
        fit.wants(whole, name, || format!("a whole number, as {dtype} is"), limit)?;
    }
    fit.elementwise(dtype)
}

/// The steps were checked when the chain was made.
pub(super) fn chain<B>(fit: &mut Fit<'_, B>, chain: &Chain) -> Result<()> {
    for (place, &dtype) in chain.inputs().iter().enumerate() {
        fit.wants_dtype(place, dtype)?;
    }
    fit.elementwise(chain.dtype())
}

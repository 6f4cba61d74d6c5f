//! Strings of numbers, and numbers of strings. The host computes them.

use std::sync::Arc;

use half::{bf16, f16};
use millstream_core::{DType, Scalar};
use millstream_graph::{
    Array, HostCall, HostOperator, HostStep, HostValue, ModelValue, OpaqueKind, Sizes, Stop,
    Strings, Value,
};

use super::common::refusal;
use crate::Result;

/// The sizes of a tensor of strings, if a value is one.
pub(crate) fn strings_shape(value: &Value) -> Option<Sizes> {
    match value {
        Value::Known(known) => match &**known {
            ModelValue::Strings(strings) => Some(Sizes::from_slice(strings.shape())),
            _ => None,
        },
        Value::Opaque(opaque) => match opaque.kind() {
            OpaqueKind::Strings(shape) => Some(shape.clone()),
            _ => None,
        },
        Value::Tensor(_) | Value::Sequence(_) | Value::Optional(_) => None,
    }
}

/// Numbers that strings stand for.
pub(crate) fn parse_texts(dtype: DType) -> Arc<dyn HostOperator> {
    Arc::new(Parse(dtype))
}

/// Strings that stand for numbers.
pub(crate) fn write_texts() -> Arc<dyn HostOperator> {
    Arc::new(Write)
}

/// Whether strings are equal.
pub(crate) fn equal_texts() -> Stop {
    Stop::Host(Arc::new(Equal))
}

fn given(inputs: &[Option<HostValue>], index: usize) -> Result<&HostValue> {
    match inputs.get(index) {
        Some(Some(value)) => Ok(value),
        _ => Err(refusal(format!("input {index} is not given"))),
    }
}

#[derive(Debug)]
struct Parse(DType);

impl HostOperator for Parse {
    fn run(&self, _: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        let texts = given(&inputs, 0)?.strings()?;
        let values = texts.values().iter().map(|text| number(text, self.0));
        let values = values.collect::<Result<Vec<Scalar>>>()?;
        Ok(HostStep::Done(vec![Array::of_scalars(self.0, texts.shape(), &values)?.into()]))
    }
}

/// The number that a text stands for.
fn number(text: &str, dtype: DType) -> Result<Scalar> {
    let trimmed = text.trim();
    if !dtype.is_float()
        && let Ok(whole) = trimmed.parse::<i64>()
    {
        return Ok(Scalar::Int(whole));
    }
    if dtype == DType::U64
        && let Ok(whole) = trimmed.parse::<u64>()
    {
        return Ok(Scalar::UInt(whole));
    }
    match trimmed.parse::<f64>() {
        Ok(value) => Ok(Scalar::Float(value)),
        Err(_) => Err(refusal(format!("{text:?} is not a number"))),
    }
}

#[derive(Debug)]
struct Write;

impl HostOperator for Write {
    fn run(&self, call: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        let array = given(&inputs, 0)?.array(call)?;
        let dtype = array.dtype();
        let texts = array.to_scalars()?.into_iter().map(|value| text(value, dtype));
        let texts: Vec<String> = texts.collect();
        Ok(HostStep::Done(vec![Strings::new(array.shape(), texts)?.into()]))
    }
}

/// A number as text: the fewest digits that stand for it, as NumPy writes it.
fn text(value: Scalar, dtype: DType) -> String {
    let Scalar::Float(value) = value else {
        return match value {
            Scalar::Bool(truth) => i64::from(truth).to_string(),
            other => other.to_string(),
        };
    };
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "INF".into() } else { "-INF".into() };
    }
    let same = |text: &str| -> bool {
        let Ok(read) = text.parse::<f64>() else { return false };
        match dtype {
            DType::F16 => f16::from_f64(read).to_f64() == value,
            DType::BF16 => bf16::from_f64(read).to_f64() == value,
            DType::F32 => f64::from(read as f32) == value,
            _ => read == value,
        }
    };
    // Seventeen digits stand for any number of 64 bits.
    let digits = (0..17).find(|&digits| same(&format!("{value:.digits$e}"))).unwrap_or(17);
    let scientific = format!("{value:.digits$e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..16).contains(&exponent) {
        let places = usize::try_from(digits as i32 - exponent).unwrap_or(0).max(1);
        return format!("{value:.places$}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[derive(Debug)]
struct Equal;

impl HostOperator for Equal {
    fn run(&self, _: &HostCall<'_>, inputs: Vec<Option<HostValue>>) -> Result<HostStep> {
        let (a, b) = (given(&inputs, 0)?.strings()?, given(&inputs, 1)?.strings()?);
        let shape = millstream_core::broadcast_shapes(a.shape(), b.shape())?;
        let count: usize = shape.iter().product();
        let truths: Vec<u8> = (0..count)
            .map(|place| u8::from(repeated(a, &shape, place) == repeated(b, &shape, place)))
            .collect();
        Ok(HostStep::Done(vec![Array::new(DType::Bool, &shape, truths)?.into()]))
    }
}

/// The string at a place of a shape that strings repeat over.
fn repeated<'a>(strings: &'a Strings, shape: &[usize], mut place: usize) -> Option<&'a String> {
    let own = strings.shape();
    let (mut index, mut step) = (0, 1);
    for axis in (0..shape.len()).rev() {
        let at = place % shape[axis].max(1);
        place /= shape[axis].max(1);
        let Some(here) = (axis + own.len()).checked_sub(shape.len()) else { break };
        if own[here] > 1 {
            index += at * step;
        }
        step *= own[here];
    }
    strings.values().get(index)
}

#[cfg(test)]
mod tests;

//! Inputs as JSON: nested lists of numbers, truth values or strings, and objects as maps.

use millstream::graph::{Array, Map, MapKeys, MapValues, Port, Strings, ValueType};
use millstream::{DType, Result};
use serde_json::Value;

use super::{HostInput, convert, invalid};

/// A text as what an input is declared to be.
///
/// # Errors
///
/// A text that is no JSON, or another value than the input takes.
pub(super) fn of_text(port: &Port, text: &str) -> Result<HostInput> {
    let wrong = |reason: String| {
        invalid(format!("for input {:?}, which is {}: {reason}", port.name, port.declared))
    };
    let value: Value =
        serde_json::from_str(text).map_err(|error| wrong(format!("not valid JSON: {error}")))?;
    of_value(&port.declared, &value).map_err(|error| match error {
        millstream::Error::Invalid { reason, .. } => wrong(reason),
        other => other,
    })
}

fn of_value(declared: &ValueType, value: &Value) -> Result<HostInput> {
    match declared {
        ValueType::Tensor(dtype, _) => numbers(*dtype, value).map(HostInput::Numbers),
        ValueType::Strings(_) => strings(value),
        ValueType::Sequence(of) => match value {
            Value::Array(values) => {
                let values = values.iter().map(|value| of_value(of, value));
                Ok(HostInput::Sequence(values.collect::<Result<_>>()?))
            }
            _ => Err(invalid("a sequence is a list".into())),
        },
        ValueType::Optional(_) if value.is_null() => Ok(HostInput::Optional(None)),
        ValueType::Optional(of) => Ok(HostInput::Optional(Some(Box::new(of_value(of, value)?)))),
        ValueType::Map(of) => map(of, value),
        ValueType::Unknown => match first(value) {
            Some(Value::String(_)) => strings(value),
            _ => numbers(DType::F32, value).map(HostInput::Numbers),
        },
    }
}

/// The first element of nested lists.
fn first(value: &Value) -> Option<&Value> {
    match value {
        Value::Array(values) => values.first().and_then(first),
        other => Some(other),
    }
}

/// The elements of nested lists, and their shape.
fn flat(value: &Value) -> Result<(Vec<usize>, Vec<&Value>)> {
    let mut shape = Vec::new();
    let mut at = value;
    while let Value::Array(values) = at {
        shape.push(values.len());
        match values.first() {
            Some(first) => at = first,
            None => break,
        }
    }
    let mut level = vec![value];
    for &size in &shape {
        let mut inner = Vec::new();
        for value in level {
            match value {
                Value::Array(values) if values.len() == size => inner.extend(values),
                _ => return Err(invalid("lists of one level have one length".into())),
            }
        }
        level = inner;
    }
    Ok((shape, level))
}

fn numbers(dtype: DType, value: &Value) -> Result<Array> {
    let (shape, values) = flat(value)?;
    if dtype.is_int() {
        let whole: Option<Vec<i64>> = values.iter().map(|value| value.as_i64()).collect();
        if let Some(whole) = whole {
            return convert::cast(&Array::from_slice(&whole, &shape)?, dtype);
        }
        let large: Option<Vec<u64>> = values.iter().map(|value| value.as_u64()).collect();
        return match large {
            Some(large) => convert::cast(&Array::from_slice(&large, &shape)?, dtype),
            None => Err(invalid("integers are needed".into())),
        };
    }
    let numbers = values.iter().map(|value| match value {
        Value::Bool(truth) => Ok(f64::from(u8::from(*truth))),
        Value::Number(number) => Ok(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => text.parse().map_err(|_| invalid(format!("{text:?} is no number"))),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(invalid("numbers are needed".into()))
        }
    });
    let numbers: Vec<f64> = numbers.collect::<Result<_>>()?;
    convert::cast(&Array::from_slice(&numbers, &shape)?, dtype)
}

fn text(value: &Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        _ => Err(invalid("strings are needed".into())),
    }
}

fn strings(value: &Value) -> Result<HostInput> {
    let (shape, values) = flat(value)?;
    let texts: Vec<String> = values.into_iter().map(text).collect::<Result<_>>()?;
    Ok(HostInput::Strings(Strings::new(&shape, texts)?))
}

/// A map: an object, whose keys are numbers if all of them look like numbers.
fn map(of: &ValueType, value: &Value) -> Result<HostInput> {
    let Value::Object(entries) = value else {
        return Err(invalid("a map is an object, as in {\"a\": 1}".into()));
    };
    let whole: Option<Vec<i64>> = entries.keys().map(|key| key.parse().ok()).collect();
    let keys = match whole {
        Some(whole) if !whole.is_empty() => MapKeys::Ints(whole.into()),
        _ => MapKeys::Texts(entries.keys().cloned().collect()),
    };
    let values = match of {
        ValueType::Strings(_) => {
            MapValues::Texts(entries.values().map(text).collect::<Result<Vec<_>>>()?.into())
        }
        ValueType::Tensor(dtype, _) => MapValues::Numbers(list(*dtype, entries)?),
        ValueType::Sequence(_)
        | ValueType::Optional(_)
        | ValueType::Map(_)
        | ValueType::Unknown => MapValues::Numbers(list(DType::F32, entries)?),
    };
    Ok(HostInput::Map(Map::new(keys, values)?))
}

fn list(dtype: DType, entries: &serde_json::Map<String, Value>) -> Result<Array> {
    numbers(dtype, &Value::Array(entries.values().cloned().collect()))
}

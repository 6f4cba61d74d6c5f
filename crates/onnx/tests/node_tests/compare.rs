//! What counts as the same, by the rules of ONNX's own runner.

use millstream_core::DType;
use millstream_graph::{Array, MapValues, ModelValue};
use millstream_nn::Tensor;

/// Numbers may differ by so much, and by this part of the expected number.
const ABSOLUTE: f64 = 1e-7;
const RELATIVE: f64 = 1e-3;
/// Of `bf16`, whose numbers are further apart.
const RELATIVE_BF16: f64 = 1.0 / 64.0;

/// # Errors
///
/// How the values differ.
pub fn compare(found: &ModelValue, wanted: &ModelValue) -> Result<(), String> {
    match (found, wanted) {
        (ModelValue::Tensor(found), ModelValue::Tensor(wanted)) => {
            if found.dtype() != wanted.dtype() {
                return Err(format!("{}, expected {}", found.dtype(), wanted.dtype()));
            }
            arrays(&array(found)?, &array(wanted)?)
        }
        (ModelValue::Strings(found), ModelValue::Strings(wanted)) if found == wanted => Ok(()),
        (ModelValue::Sequence(found), ModelValue::Sequence(wanted)) => {
            if found.len() != wanted.len() {
                return Err(format!("{} values, expected {}", found.len(), wanted.len()));
            }
            found.iter().zip(wanted).try_for_each(|(found, wanted)| compare(found, wanted))
        }
        (ModelValue::Optional(None), ModelValue::Optional(None)) => Ok(()),
        (ModelValue::Optional(Some(found)), ModelValue::Optional(Some(wanted))) => {
            compare(found, wanted)
        }
        (ModelValue::Map(found), ModelValue::Map(wanted)) if found.keys() == wanted.keys() => {
            match (found.values(), wanted.values()) {
                (MapValues::Numbers(found), MapValues::Numbers(wanted)) => arrays(found, wanted),
                (MapValues::Texts(found), MapValues::Texts(wanted)) if found == wanted => Ok(()),
                _ => Err(format!("{found:?}, expected {wanted:?}")),
            }
        }
        _ => Err(format!("{found:?}, expected {wanted:?}")),
    }
}

/// The numbers of a tensor. Those of types that are only stored are compared as what they stand for: NaN has many forms.
fn array(tensor: &Tensor) -> Result<Array, String> {
    let tensor =
        if tensor.dtype().is_storage() { tensor.to_dtype(DType::F32) } else { Ok(tensor.clone()) };
    tensor.and_then(|tensor| Array::of_tensor(&tensor)).map_err(|error| error.to_string())
}

fn arrays(found: &Array, wanted: &Array) -> Result<(), String> {
    if found.spec() != wanted.spec() {
        return Err(format!("{}, expected {}", found.spec(), wanted.spec()));
    }
    if found.bytes() == wanted.bytes() {
        return Ok(());
    }
    let relative = if found.dtype() == DType::BF16 { RELATIVE_BF16 } else { RELATIVE };
    if !found.dtype().is_float() {
        return Err(format!("{}, expected {}", head(found), head(wanted)));
    }
    let numbers = |array: &Array| array.to_f64s().map_err(|error| error.to_string());
    let (found, wanted) = (numbers(found)?, numbers(wanted)?);
    let mut worst: Option<(f64, usize)> = None;
    for (index, (&found, &wanted)) in found.iter().zip(&wanted).enumerate() {
        let same = found == wanted
            || (found.is_nan() && wanted.is_nan())
            || (found - wanted).abs() <= ABSOLUTE + relative * wanted.abs();
        let off = (found - wanted).abs();
        if !same && worst.is_none_or(|(most, _)| off > most || off.is_nan()) {
            worst = Some((off, index));
        }
    }
    match worst {
        None => Ok(()),
        Some((_, at)) => {
            Err(format!("{} at {at} of {}, expected {}", found[at], found.len(), wanted[at]))
        }
    }
}

/// The first elements in words.
fn head(array: &Array) -> String {
    match array.to_scalars() {
        Ok(values) => {
            let texts: Vec<String> = values.iter().take(16).map(ToString::to_string).collect();
            format!("[{}]", texts.join(", "))
        }
        Err(error) => error.to_string(),
    }
}

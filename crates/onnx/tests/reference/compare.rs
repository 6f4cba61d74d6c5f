//! What counts as the same as onnxruntime's answer.

use millstream_core::DType;
use millstream_graph::{Array, MapKeys, MapValues, ModelValue};

/// # Errors
///
/// How the values differ.
pub fn compare(found: &ModelValue, wanted: &ModelValue) -> Result<(), String> {
    let differ = || Err(format!("{found:?}, expected {wanted:?}"));
    match (found, wanted) {
        (ModelValue::Tensor(found), ModelValue::Tensor(wanted)) => {
            let read = |tensor| Array::of_tensor(tensor).map_err(|error| error.to_string());
            arrays(&read(found)?, &read(wanted)?)
        }
        (ModelValue::Sequence(found), ModelValue::Sequence(wanted)) => {
            if found.len() != wanted.len() {
                return Err(format!("{} values, expected {}", found.len(), wanted.len()));
            }
            let mut pairs = found.iter().zip(wanted);
            pairs.try_for_each(|(found, wanted)| compare(found, wanted))
        }
        (ModelValue::Strings(found), ModelValue::Strings(wanted)) => {
            if found == wanted {
                Ok(())
            } else {
                differ()
            }
        }
        (ModelValue::Map(found), ModelValue::Map(wanted)) => {
            // onnxruntime sorts the keys.
            let order = |keys: &MapKeys| {
                let mut order: Vec<usize> = (0..keys.len()).collect();
                match keys {
                    MapKeys::Ints(keys) => order.sort_by_key(|&at| keys[at]),
                    MapKeys::Texts(keys) => order.sort_by_key(|&at| &keys[at]),
                }
                order
            };
            let keys = |keys: &MapKeys| -> Vec<String> {
                let order = order(keys).into_iter();
                order
                    .map(|at| match keys {
                        MapKeys::Ints(keys) => keys[at].to_string(),
                        MapKeys::Texts(keys) => format!("{:?}", keys[at]),
                    })
                    .collect()
            };
            if keys(found.keys()) != keys(wanted.keys()) {
                return differ();
            }
            match (found.values(), wanted.values()) {
                (MapValues::Numbers(a), MapValues::Numbers(b)) => {
                    let sorted = |array: &Array, keys: &MapKeys| -> Result<Array, String> {
                        let values = array.to_scalars().map_err(|error| error.to_string())?;
                        let values: Vec<_> = order(keys).into_iter().map(|at| values[at]).collect();
                        Array::of_scalars(array.dtype(), array.shape(), &values)
                            .map_err(|error| error.to_string())
                    };
                    arrays(&sorted(a, found.keys())?, &sorted(b, wanted.keys())?)
                }
                (MapValues::Texts(_), MapValues::Texts(_)) if found == wanted => Ok(()),
                _ => differ(),
            }
        }
        (ModelValue::Optional(Some(found)), ModelValue::Optional(Some(wanted))) => {
            compare(found, wanted)
        }
        (ModelValue::Optional(None), ModelValue::Optional(None)) => Ok(()),
        _ => differ(),
    }
}

fn arrays(found: &Array, wanted: &Array) -> Result<(), String> {
    if found.spec() != wanted.spec() {
        return Err(format!("{}, expected {}", found.spec(), wanted.spec()));
    }
    if found.bytes() == wanted.bytes() {
        return Ok(());
    }
    let numbers = |array: &Array| array.to_f64s().map_err(|error| error.to_string());
    let (found_numbers, wanted_numbers) = (numbers(found)?, numbers(wanted)?);
    let finite = wanted_numbers.iter().filter(|value| value.is_finite());
    let largest = finite.fold(0f64, |largest, value| largest.max(value.abs()));
    let allowed = match found.dtype() {
        DType::F32 | DType::F64 => 1e-5 + 1e-4 * largest,
        DType::F16 | DType::BF16 => 1e-3 + 1e-2 * largest,
        // Numbers that stand for others may be rounded the other way.
        DType::U8 | DType::I8 => 1.0,
        _ => 0.0,
    };
    for (at, (&found, &wanted)) in found_numbers.iter().zip(&wanted_numbers).enumerate() {
        let same = found == wanted
            || (found.is_nan() && wanted.is_nan())
            || (found - wanted).abs() <= allowed;
        if !same {
            let count = found_numbers.len();
            return Err(format!("{found} at {at} of {count}, expected {wanted}"));
        }
    }
    Ok(())
}

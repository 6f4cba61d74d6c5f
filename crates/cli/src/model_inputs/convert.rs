//! Arrays of NumPy as inputs of a model.

use millstream::graph::{Array, Port, Strings, ValueType};
use millstream::{DType, Device, Result};

use super::{HostInput, invalid};
use crate::npy::{Elements, NumpyArray};

/// An array as what an input is declared to be.
///
/// # Errors
///
/// An array of other elements.
pub(super) fn of_array(port: &Port, array: &NumpyArray, cast: bool) -> Result<HostInput> {
    of_declared(&port.declared, array, cast).map_err(|error| {
        let NumpyArray { elements, shape, .. } = array;
        let reason = match error {
            millstream::Error::Invalid { reason, .. } => reason,
            other => other.to_string(),
        };
        invalid(format!(
            "{elements}{shape:?} for input {:?}, which is {}: {reason}",
            port.name, port.declared
        ))
    })
}

fn of_declared(declared: &ValueType, array: &NumpyArray, cast: bool) -> Result<HostInput> {
    match declared {
        ValueType::Tensor(dtype, _) => numbers(*dtype, array, cast).map(HostInput::Numbers),
        ValueType::Strings(_) => strings(array),
        ValueType::Sequence(of) => of_declared(of, array, cast),
        ValueType::Optional(of) => {
            let value = of_declared(of, array, cast)?;
            Ok(HostInput::Optional(Some(Box::new(value))))
        }
        ValueType::Map(_) => Err(invalid("a map is given as a JSON file or with --value".into())),
        ValueType::Unknown => match array.elements {
            Elements::Numbers(dtype) => numbers(dtype, array, cast).map(HostInput::Numbers),
            Elements::Texts(_) | Elements::Bytes(_) => strings(array),
            Elements::Raw(_) => Err(invalid("its element type is not known".into())),
        },
    }
}

fn strings(array: &NumpyArray) -> Result<HostInput> {
    let texts = array.texts().map_err(invalid)?;
    Ok(HostInput::Strings(Strings::new(&array.shape, texts)?))
}

/// The numbers of an array in the type that is wanted. Types that NumPy does not have come as their bits, or as numbers
/// of a type that holds them.
fn numbers(wanted: DType, array: &NumpyArray, cast_any: bool) -> Result<Array> {
    let NumpyArray { elements, shape, bytes } = array;
    let given = |dtype: DType| Array::new(dtype, shape, bytes.clone());
    match *elements {
        Elements::Numbers(dtype) if dtype == wanted => given(dtype),
        Elements::Raw(size) if size == wanted.size() && is_foreign(wanted) => {
            of_bits(wanted, shape, bytes)
        }
        Elements::Numbers(DType::U16) if wanted == DType::BF16 => given(wanted),
        Elements::Numbers(DType::U8)
            if is_foreign(wanted) && wanted.per_byte() == 1 && wanted.size() == 1 =>
        {
            given(wanted)
        }
        Elements::Numbers(DType::I8) if wanted == DType::I4 => of_bits(wanted, shape, bytes),
        Elements::Numbers(DType::U8) if wanted == DType::U4 => of_bits(wanted, shape, bytes),
        Elements::Numbers(dtype) if cast_any || (dtype.is_float() && is_foreign(wanted)) => {
            cast(&given(dtype)?, wanted)
        }
        Elements::Numbers(_) | Elements::Raw(_) => {
            Err(invalid("convert it with astype, or give --cast".into()))
        }
        Elements::Texts(_) | Elements::Bytes(_) => Err(invalid("numbers are needed".into())),
    }
}

/// Whether NumPy has no such type.
fn is_foreign(dtype: DType) -> bool {
    dtype == DType::BF16 || dtype.is_storage()
}

/// Elements as `ml_dtypes` keeps them: those of 4 bits take a byte each.
fn of_bits(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Array> {
    if dtype.per_byte() == 1 {
        return Array::new(dtype, shape, bytes.to_vec());
    }
    let pair = |pair: &[u8]| (pair[0] & 15) | (pair.get(1).copied().unwrap_or(0) << 4);
    let packed: Vec<u8> = bytes.chunks(2).map(pair).collect();
    Array::new(dtype, shape, packed)
}

/// The same numbers in another type, as ONNX's Cast makes them.
pub(super) fn cast(array: &Array, dtype: DType) -> Result<Array> {
    if array.dtype() == dtype {
        return Ok(array.clone());
    }
    Array::of_tensor(&array.to_tensor(&Device::cpu()?)?.to_dtype(dtype)?)
}

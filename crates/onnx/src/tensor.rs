//! Tensors in files.

use bytes::Bytes;
use millstream_core::{DType, as_bytes};
use millstream_graph::{Array, Strings};

use crate::dtypes::{dtype, is_string};
use crate::external::ExternalFiles;
use crate::proto::tensor_proto::DataLocation;
use crate::proto::{SparseTensorProto, TensorProto};
use crate::{Error, Result};

/// Sparse tensors are kept with their zeros up to this size.
const MAX_DENSE_BYTES: usize = 1 << 30;

/// A tensor of a model.
#[derive(Clone, Debug)]
pub(crate) enum Literal {
    Array(Array),
    Strings(Strings),
}

fn invalid<T>(tensor: &TensorProto, reason: String) -> Result<T> {
    let name = tensor.name.as_deref().unwrap_or("");
    Err(Error::Format { path: format!("tensor {name:?}"), reason })
}

/// The contents of a tensor. Those of the file itself, or of another file, are not copied.
pub(crate) fn literal(tensor: &TensorProto, files: &ExternalFiles) -> Result<Literal> {
    let mut shape = Vec::with_capacity(tensor.dims.len());
    for &size in &tensor.dims {
        match usize::try_from(size) {
            Ok(size) => shape.push(size),
            Err(_) => return invalid(tensor, format!("shape {:?}", tensor.dims)),
        }
    }
    let number = tensor.data_type.unwrap_or(0);
    let external = tensor.data_location == Some(DataLocation::External as i32);
    if is_string(number) {
        let texts = tensor.string_data.iter().map(|text| String::from_utf8(text.to_vec()));
        let Ok(texts) = texts.collect::<std::result::Result<Vec<String>, _>>() else {
            return invalid(tensor, "a string is not UTF-8".into());
        };
        return match Strings::new(&shape, texts) {
            Ok(strings) if !external => Ok(Literal::Strings(strings)),
            Ok(_) => invalid(tensor, "strings in another file".into()),
            Err(error) => invalid(tensor, error.to_string()),
        };
    }
    let dtype = match dtype(number) {
        Ok(dtype) => dtype,
        Err(reason) => return invalid(tensor, reason),
    };
    let bytes = if external {
        files.read(tensor, dtype, &shape)?
    } else if let Some(raw) = tensor.raw_data.as_ref() {
        little_endian(raw.clone(), dtype)
    } else {
        match typed(tensor, dtype) {
            Ok(bytes) => bytes,
            Err(reason) => return invalid(tensor, reason),
        }
    };
    let bytes = if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
        // Devices rely on 0 and 1.
        bytes.iter().map(|&byte| u8::from(byte != 0)).collect()
    } else {
        bytes
    };
    match Array::new(dtype, &shape, bytes) {
        Ok(array) => Ok(Literal::Array(array)),
        Err(error) => invalid(tensor, error.to_string()),
    }
}

/// A sparse tensor with its zeros.
pub(crate) fn dense(sparse: &SparseTensorProto, files: &ExternalFiles) -> Result<Array> {
    let (Some(values), Some(indices)) = (&sparse.values, &sparse.indices) else {
        return Err(Error::Format {
            path: "sparse tensor".into(),
            reason: "it has no values".into(),
        });
    };
    let (Literal::Array(given), Literal::Array(places)) =
        (literal(values, files)?, literal(indices, files)?)
    else {
        return invalid(values, "a sparse tensor of strings".into());
    };
    let shape: Option<Vec<usize>> =
        sparse.dims.iter().map(|&size| usize::try_from(size).ok()).collect();
    let Some(shape) = shape else { return invalid(values, format!("shape {:?}", sparse.dims)) };
    let size = given.dtype().size();
    let layout = match millstream_core::Layout::contiguous(given.dtype(), &shape) {
        Ok(layout) if layout.dense_bytes() <= MAX_DENSE_BYTES => layout,
        _ => return invalid(values, format!("a dense tensor of shape {shape:?} is too large")),
    };
    let mut bytes = vec![0u8; layout.dense_bytes()];
    let places_of = places.to_i64s()?;
    // Places are indices into the flat tensor, or one row of indices each.
    let width = if places.shape().len() == 2 { places.shape()[1] } else { 1 };
    let rows = places_of.len().checked_div(width).unwrap_or(0);
    if rows != given.elements() || (places.shape().len() == 2 && width != shape.len()) {
        return invalid(values, "indices and values do not fit each other".into());
    }
    for (row, value) in places_of.chunks_exact(width.max(1)).zip(given.bytes().chunks_exact(size)) {
        let mut flat = 0usize;
        for (axis, &index) in row.iter().enumerate() {
            let bound = if places.shape().len() == 2 { shape[axis] } else { layout.elements() };
            match usize::try_from(index) {
                Ok(index) if index < bound => flat = flat * bound + index,
                _ => return invalid(values, format!("index {index} of shape {shape:?}")),
            }
        }
        bytes[flat * size..][..size].copy_from_slice(value);
    }
    Array::new(given.dtype(), &shape, bytes)
}

/// Bytes of a file in the order of this machine.
pub(crate) fn little_endian(bytes: Bytes, dtype: DType) -> Bytes {
    if cfg!(target_endian = "little") || dtype.size() == 1 {
        return bytes;
    }
    let mut swapped = bytes.to_vec();
    swapped.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    swapped.into()
}

/// The bytes of numbers that are stored in a field of their own type. What is smaller than 32 bits is in `int32_data`.
fn typed(tensor: &TensorProto, dtype: DType) -> std::result::Result<Bytes, String> {
    let TensorProto { float_data, int32_data, int64_data, double_data, uint64_data, .. } = tensor;
    let narrow = |bytes: usize| -> Vec<u8> {
        int32_data.iter().flat_map(|value| value.to_ne_bytes_of(bytes)).collect()
    };
    Ok(match dtype {
        DType::F32 => Bytes::copy_from_slice(as_bytes(float_data)),
        DType::F64 => Bytes::copy_from_slice(as_bytes(double_data)),
        DType::I64 => Bytes::copy_from_slice(as_bytes(int64_data)),
        DType::U64 => Bytes::copy_from_slice(as_bytes(uint64_data)),
        DType::U32 => {
            let values: Vec<u32> = uint64_data.iter().map(|&value| value as u32).collect();
            Bytes::copy_from_slice(as_bytes(&values))
        }
        DType::I32 => Bytes::copy_from_slice(as_bytes(int32_data)),
        DType::I16 | DType::U16 | DType::F16 | DType::BF16 => narrow(2).into(),
        DType::I8
        | DType::U8
        | DType::Bool
        | DType::F8E4M3FN
        | DType::F8E5M2
        | DType::F8E4M3FNUZ
        | DType::F8E5M2FNUZ
        | DType::F8E8M0
        | DType::I4
        | DType::U4
        | DType::F4E2M1 => narrow(1).into(),
    })
}

/// The low bytes of a number.
trait LowBytes {
    fn to_ne_bytes_of(&self, count: usize) -> Vec<u8>;
}

impl LowBytes for i32 {
    fn to_ne_bytes_of(&self, count: usize) -> Vec<u8> {
        match count {
            1 => vec![*self as u8],
            _ => (*self as u16).to_ne_bytes().to_vec(),
        }
    }
}

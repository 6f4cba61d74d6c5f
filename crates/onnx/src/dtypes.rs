//! Element types by their numbers in ONNX.

use millstream_core::DType;

use crate::proto::tensor_proto::DataType;

/// The element type with this number, or why there is none.
pub(crate) fn dtype(number: i32) -> Result<DType, String> {
    let Ok(kind) = DataType::try_from(number) else {
        return Err(format!("element type {number} is not known"));
    };
    Ok(match kind {
        DataType::Float => DType::F32,
        DataType::Uint8 => DType::U8,
        DataType::Int8 => DType::I8,
        DataType::Uint16 => DType::U16,
        DataType::Int16 => DType::I16,
        DataType::Int32 => DType::I32,
        DataType::Int64 => DType::I64,
        DataType::Bool => DType::Bool,
        DataType::Float16 => DType::F16,
        DataType::Double => DType::F64,
        DataType::Uint32 => DType::U32,
        DataType::Uint64 => DType::U64,
        DataType::Bfloat16 => DType::BF16,
        DataType::Float8e4m3fn => DType::F8E4M3FN,
        DataType::Float8e4m3fnuz => DType::F8E4M3FNUZ,
        DataType::Float8e5m2 => DType::F8E5M2,
        DataType::Float8e5m2fnuz => DType::F8E5M2FNUZ,
        DataType::Float8e8m0 => DType::F8E8M0,
        DataType::Uint4 => DType::U4,
        DataType::Int4 => DType::I4,
        DataType::Float4e2m1 => DType::F4E2M1,
        other => return Err(format!("element type {} is not supported", other.as_str_name())),
    })
}

/// Whether this is the number of strings.
pub(crate) fn is_string(number: i32) -> bool {
    number == DataType::String as i32
}

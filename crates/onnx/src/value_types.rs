//! Declared types of inputs and outputs.

use millstream_graph::{Dim, ValueType};

use crate::dtypes::{dtype, is_string};
use crate::proto::{TensorShapeProto, TypeProto, tensor_shape_proto, type_proto};

/// What a value is declared to be. A type that nothing can be computed with is unknown.
pub(crate) fn value_type(declared: Option<&TypeProto>) -> ValueType {
    let of = |inner: &Option<Box<TypeProto>>| Box::new(value_type(inner.as_deref()));
    match declared.and_then(|declared| declared.value.as_ref()) {
        Some(type_proto::Value::TensorType(tensor)) => {
            let number = tensor.elem_type.unwrap_or(0);
            let dims = tensor.shape.as_ref().map(dims);
            if is_string(number) {
                return ValueType::Strings(dims);
            }
            dtype(number).map_or(ValueType::Unknown, |dtype| ValueType::Tensor(dtype, dims))
        }
        Some(type_proto::Value::SequenceType(sequence)) => {
            ValueType::Sequence(of(&sequence.elem_type))
        }
        Some(type_proto::Value::OptionalType(optional)) => {
            ValueType::Optional(of(&optional.elem_type))
        }
        Some(type_proto::Value::MapType(map)) => ValueType::Map(of(&map.value_type)),
        Some(type_proto::Value::SparseTensorType(_) | type_proto::Value::OpaqueType(_)) | None => {
            ValueType::Unknown
        }
    }
}

fn dims(shape: &TensorShapeProto) -> Vec<Dim> {
    let dim = |dim: &tensor_shape_proto::Dimension| match &dim.value {
        Some(tensor_shape_proto::dimension::Value::DimValue(size)) => {
            // Older exporters write -1 for what they do not know.
            usize::try_from(*size).map_or(Dim::Unknown, Dim::Known)
        }
        Some(tensor_shape_proto::dimension::Value::DimParam(name)) if !name.is_empty() => {
            Dim::Named(name.clone())
        }
        _ => Dim::Unknown,
    };
    shape.dim.iter().map(dim).collect()
}

//! Values as ONNX stores them by themselves, such as the inputs and outputs of its tests.

use bytes::Bytes;
use millstream_core::Device;
use millstream_graph::{Array, Map, MapKeys, MapValues, ModelValue, ValueType};
use prost::Message;

use crate::external::ExternalFiles;
use crate::proto::{SparseTensorProto, TensorProto};
use crate::tensor::{Literal, dense, literal};
use crate::{Error, Result};

/// Values within values: messages of a file are not deeper than this.
const MAX_LEVELS: usize = 16;

#[derive(Clone, PartialEq, Message)]
struct SequenceProto {
    #[prost(int32, optional, tag = "2")]
    elem_type: Option<i32>,
    #[prost(message, repeated, tag = "3")]
    tensor_values: Vec<TensorProto>,
    #[prost(message, repeated, tag = "4")]
    sparse_tensor_values: Vec<SparseTensorProto>,
    #[prost(message, repeated, tag = "5")]
    sequence_values: Vec<SequenceProto>,
    #[prost(message, repeated, tag = "6")]
    map_values: Vec<MapProto>,
    #[prost(message, repeated, tag = "7")]
    optional_values: Vec<OptionalProto>,
}

#[derive(Clone, PartialEq, Message)]
struct MapProto {
    #[prost(int64, repeated, packed = "false", tag = "3")]
    keys: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    string_keys: Vec<Bytes>,
    #[prost(message, optional, tag = "5")]
    values: Option<SequenceProto>,
}

#[derive(Clone, PartialEq, Message)]
struct OptionalProto {
    #[prost(int32, optional, tag = "2")]
    elem_type: Option<i32>,
    #[prost(message, optional, tag = "3")]
    tensor_value: Option<TensorProto>,
    #[prost(message, optional, tag = "4")]
    sparse_tensor_value: Option<SparseTensorProto>,
    #[prost(message, optional, tag = "5")]
    sequence_value: Option<SequenceProto>,
    #[prost(message, optional, tag = "6")]
    map_value: Option<MapProto>,
    #[prost(message, optional, boxed, tag = "7")]
    optional_value: Option<Box<OptionalProto>>,
}

fn invalid<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Format { path: "value".into(), reason: reason.into() })
}

fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M> {
    M::decode(bytes).or_else(|error| invalid(error.to_string()))
}

/// Reads a value as ONNX stores it by itself: a file with the extension `.pb`, as test data have it. Which message the file
/// holds follows from what the value is declared to be.
///
/// # Errors
///
/// Bytes that are no such value, or one of numbers that are not supported.
pub fn read_value(bytes: &[u8], declared: &ValueType, device: &Device) -> Result<ModelValue> {
    let reader = Reader { device, files: ExternalFiles::none() };
    match declared {
        ValueType::Tensor(..) | ValueType::Strings(_) | ValueType::Unknown => {
            reader.tensor(&decode(bytes)?)
        }
        ValueType::Sequence(_) => reader.sequence(&decode(bytes)?, 0),
        ValueType::Optional(_) => reader.optional(&decode(bytes)?, 0),
        ValueType::Map(_) => reader.map(&decode(bytes)?),
    }
}

struct Reader<'a> {
    device: &'a Device,
    files: ExternalFiles,
}

impl Reader<'_> {
    fn tensor(&self, tensor: &TensorProto) -> Result<ModelValue> {
        match literal(tensor, &self.files)? {
            Literal::Array(array) => Ok(array.to_tensor(self.device)?.into()),
            Literal::Strings(strings) => Ok(strings.into()),
        }
    }

    fn sparse(&self, tensor: &SparseTensorProto) -> Result<ModelValue> {
        Ok(dense(tensor, &self.files)?.to_tensor(self.device)?.into())
    }

    fn sequence(&self, sequence: &SequenceProto, level: usize) -> Result<ModelValue> {
        Ok(ModelValue::Sequence(self.values(sequence, level)?))
    }

    fn values(&self, sequence: &SequenceProto, level: usize) -> Result<Vec<ModelValue>> {
        if level > MAX_LEVELS {
            return invalid(format!("values are nested more than {MAX_LEVELS} deep"));
        }
        // One of the lists is filled.
        let SequenceProto { elem_type: _, tensor_values, .. } = sequence;
        let SequenceProto { sparse_tensor_values, sequence_values, .. } = sequence;
        let SequenceProto { map_values, optional_values, .. } = sequence;
        let tensors = tensor_values.iter().map(|value| self.tensor(value));
        let sparse = sparse_tensor_values.iter().map(|value| self.sparse(value));
        let sequences = sequence_values.iter().map(|value| self.sequence(value, level + 1));
        let maps = map_values.iter().map(|value| self.map(value));
        let optionals = optional_values.iter().map(|value| self.optional(value, level + 1));
        tensors.chain(sparse).chain(sequences).chain(maps).chain(optionals).collect()
    }

    fn map(&self, map: &MapProto) -> Result<ModelValue> {
        let keys = if map.string_keys.is_empty() {
            MapKeys::Ints(map.keys.as_slice().into())
        } else {
            let texts = map.string_keys.iter().map(|key| std::str::from_utf8(key));
            match texts.map(|text| text.map(str::to_owned)).collect::<std::result::Result<_, _>>() {
                Ok(texts) => MapKeys::Texts(texts),
                Err(_) => return invalid("a key is not UTF-8"),
            }
        };
        // One tensor for each key, of one element.
        let tensors = map.values.iter().flat_map(|values| &values.tensor_values);
        let (mut bytes, mut texts, mut dtype) = (Vec::new(), Vec::new(), None);
        for tensor in tensors {
            match literal(tensor, &self.files)? {
                Literal::Array(array) => {
                    if dtype.is_some_and(|dtype| dtype != array.dtype()) {
                        return invalid("values of a map differ in their types");
                    }
                    dtype = Some(array.dtype());
                    bytes.extend_from_slice(array.bytes());
                }
                Literal::Strings(strings) => texts.extend_from_slice(strings.values()),
            }
        }
        let values = match dtype {
            Some(dtype) => MapValues::Numbers(Array::new(dtype, &[keys.len()], bytes)?),
            None => MapValues::Texts(texts.into()),
        };
        Ok(Map::new(keys, values)?.into())
    }

    fn optional(&self, optional: &OptionalProto, level: usize) -> Result<ModelValue> {
        if level > MAX_LEVELS {
            return invalid(format!("values are nested more than {MAX_LEVELS} deep"));
        }
        let OptionalProto { elem_type: _, tensor_value, sparse_tensor_value, .. } = optional;
        let OptionalProto { sequence_value, map_value, optional_value, .. } = optional;
        let value = if let Some(tensor) = tensor_value {
            Some(self.tensor(tensor)?)
        } else if let Some(sparse) = sparse_tensor_value {
            Some(self.sparse(sparse)?)
        } else if let Some(sequence) = sequence_value {
            Some(self.sequence(sequence, level + 1)?)
        } else if let Some(map) = map_value {
            Some(self.map(map)?)
        } else if let Some(inner) = optional_value {
            Some(self.optional(inner, level + 1)?)
        } else {
            None
        };
        Ok(ModelValue::Optional(value.map(Box::new)))
    }
}

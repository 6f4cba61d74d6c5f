//! Operators that make tensors of nothing.

use millstream_core::{DType, Scalar};
use millstream_graph::{Array, ModelValue, Operator, Strings, Value};
use std::sync::Arc;

use super::common::{fill, one, refusal, size};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;
use crate::tensor::Literal;

pub(crate) const TABLE: Table = &[("Constant", constant), ("ConstantOfShape", constant_of_shape)];

fn constant(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let attributes = &node.attributes;
    let literal = if let Some(literal) = node.literal("value")? {
        literal
    } else if let Some(array) = node.dense("sparse_value")? {
        Literal::Array(array)
    } else if let Some(value) = attributes.float("value_float")? {
        Literal::Array(Array::scalar(value))
    } else if let Some(values) = attributes.floats("value_floats")? {
        Literal::Array(Array::from_slice(values, &[values.len()])?)
    } else if let Some(value) = attributes.int("value_int")? {
        Literal::Array(Array::scalar(value))
    } else if let Some(values) = attributes.ints("value_ints")? {
        Literal::Array(Array::vector(values)?)
    } else if let Some(value) = attributes.string("value_string")? {
        Literal::Strings(Strings::new(&[], vec![value.to_owned()])?)
    } else if let Some(values) = attributes.strings("value_strings")? {
        Literal::Strings(Strings::new(&[values.len()], values)?)
    } else {
        return Err(refusal("none of the values that a constant can have is given"));
    };
    match literal {
        Literal::Array(array) => {
            let constant = millstream_graph::Constant::new(array);
            operator(node, move |at, _| one(at.shared_constant(&constant)))
        }
        Literal::Strings(strings) => {
            let known = Arc::new(ModelValue::Strings(strings));
            operator(node, move |_, _| Ok(vec![Value::Known(Arc::clone(&known))]))
        }
    }
}

fn constant_of_shape(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let (value, dtype) = match node.literal("value")? {
        Some(Literal::Array(array)) => (array.to_scalar()?, array.dtype()),
        Some(Literal::Strings(_)) => return Err(refusal("a constant of strings")),
        None => (Scalar::Float(0.0), DType::F32),
    };
    operator(node, move |at, inputs| {
        let shape = at.integers(inputs.tensor(0)?)?;
        let shape = shape.into_iter().map(size).collect::<millstream_graph::Expanded<Vec<_>>>()?;
        one(fill(at, value, dtype, &shape)?)
    })
}

#[cfg(test)]
mod tests;

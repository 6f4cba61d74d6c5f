//! Other element types for the same numbers.

use millstream_core::DType;
use millstream_graph::{Edge, Expanded, Stop, Value, View};

use super::common::{Made, cast_with, one, refusal, refuse};
use super::text::{parse_texts, strings_shape, write_texts};
use crate::dtypes::{dtype, is_string};
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table =
    &[("BitCast", bit_cast), ("Cast", cast_to), ("CastLike", cast_like)];

/// What values are cast to.
#[derive(Clone, Copy, Debug)]
enum To {
    Numbers(DType),
    Texts,
}

fn of_number(number: i64) -> crate::Result<To> {
    let number = number as i32;
    if is_string(number) {
        return Ok(To::Texts);
    }
    dtype(number).map(To::Numbers).map_err(refusal)
}

fn cast_to(node: &mut NodeDef<'_, '_>) -> Made {
    // In the first operator sets the type is a word.
    let to = match node.version {
        ..6 => node.attributes.string("to")?.map(of_word).transpose()?,
        _ => node.attributes.int("to")?.map(of_number).transpose()?,
    };
    let Some(to) = to else { return Err(refusal("the element type is not given")) };
    let saturate = node.attributes.flag("saturate", true)?;
    node.attributes.ignore(&["round_mode"]);
    operator(node, move |at, inputs| convert(at, inputs, to, saturate))
}

fn of_word(word: &str) -> crate::Result<To> {
    match crate::proto::tensor_proto::DataType::from_str_name(word) {
        Some(kind) => of_number(kind as i64),
        None => Err(refusal(format!("element type {word:?} is not known"))),
    }
}

fn cast_like(node: &mut NodeDef<'_, '_>) -> Made {
    let saturate = node.attributes.flag("saturate", true)?;
    node.attributes.ignore(&["round_mode"]);
    operator(node, move |at, inputs| {
        let like = inputs.required(1)?;
        let to = if strings_shape(like).is_some() {
            To::Texts
        } else {
            To::Numbers(at.dtype(like.tensor()?))
        };
        convert(at, inputs, to, saturate)
    })
}

fn convert(
    at: &mut millstream_graph::Expander<'_>,
    inputs: Inputs<'_>,
    to: To,
    saturate: bool,
) -> Expanded<Vec<Value>> {
    let value = inputs.required(0)?;
    match (strings_shape(value).is_some(), to) {
        (true, To::Texts) => Ok(vec![value.clone()]),
        (true, To::Numbers(dtype)) => Err(Stop::Host(parse_texts(dtype))),
        (false, To::Texts) => Err(Stop::Host(write_texts())),
        (false, To::Numbers(dtype)) => {
            let input = wrapping(at, inputs.tensor(0)?, dtype)?;
            one(cast_with(at, input, dtype, saturate)?)
        }
    }
}

/// Numbers on their way to a short type of integers. ONNX does not say what becomes of those outside; onnxruntime keeps the lowest bits
/// of a longer integer, and images that were not clipped rely on it.
fn wrapping(at: &mut millstream_graph::Expander<'_>, input: Edge, to: DType) -> Expanded<Edge> {
    let from = at.dtype(input);
    let through = match to {
        _ if !from.is_float() || from.is_storage() => return Ok(input),
        DType::U8 | DType::I8 | DType::U16 | DType::I16 => DType::I32,
        DType::U32 => DType::I64,
        _ => return Ok(input),
    };
    cast_with(at, input, through, true)
}

fn bit_cast(node: &mut NodeDef<'_, '_>) -> Made {
    let to = dtype(node.attributes.int_or("to", 0)? as i32).map_err(refusal)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let from = at.dtype(input);
        if (from.size(), from.per_byte()) != (to.size(), to.per_byte()) {
            return refuse(format!("the bits of {from} are not as many as those of {to}"));
        }
        one(at.view(View::Bits(to), input)?)
    })
}

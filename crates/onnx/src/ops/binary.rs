//! Functions of two elements, and of several.

use millstream_core::{BinaryOp, DType, Op, Scalar};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{
    Made, axis_or_end, cast, one, pair, refuse, reshape, unknown, wide, with_number,
};
use super::text::{equal_texts, strings_shape};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("Add", |node| binary(node, BinaryOp::Add)),
    ("And", |node| binary(node, BinaryOp::And)),
    ("BitShift", bit_shift),
    ("BitwiseAnd", |node| binary(node, BinaryOp::And)),
    ("BitwiseOr", |node| binary(node, BinaryOp::Or)),
    ("BitwiseXor", |node| binary(node, BinaryOp::Xor)),
    ("Div", |node| binary(node, BinaryOp::Div)),
    ("Equal", |node| binary(node, BinaryOp::Equal)),
    ("Greater", |node| binary(node, BinaryOp::Greater)),
    ("GreaterOrEqual", |node| binary(node, BinaryOp::GreaterEqual)),
    ("Less", |node| binary(node, BinaryOp::Less)),
    ("LessOrEqual", |node| binary(node, BinaryOp::LessEqual)),
    ("Max", |node| several(node, BinaryOp::Max, false)),
    ("Mean", |node| several(node, BinaryOp::Add, true)),
    ("Min", |node| several(node, BinaryOp::Min, false)),
    ("Mod", modulo),
    ("Mul", |node| binary(node, BinaryOp::Mul)),
    ("Or", |node| binary(node, BinaryOp::Or)),
    ("Pow", pow),
    ("PRelu", prelu),
    ("Sub", |node| binary(node, BinaryOp::Sub)),
    ("Sum", |node| several(node, BinaryOp::Add, false)),
    ("Where", |node| operator(node, |at, inputs| one(at.apply(Op::Where, &inputs.tensors()?)?))),
    ("Xor", |node| binary(node, BinaryOp::Xor)),
    ("Clip", clip),
];

/// How the second input repeats: up to operator set 6 an attribute says from which axis on it lies.
fn first_axis(node: &NodeDef<'_, '_>) -> Result<Option<i64>> {
    if node.version >= 7 {
        return Ok(None);
    }
    node.attributes.ignore(&["consumed_inputs", "broadcast"]);
    node.attributes.int("axis")
}

/// The second input with axes of size 1 behind its own, so that they lie where they should.
fn aligned(at: &mut Expander<'_>, a: Edge, b: Edge, first: Option<i64>) -> Expanded<Edge> {
    let Some(first) = first else { return Ok(b) };
    let (rank, mut shape) = (at.rank(a), at.shape(b));
    let behind = (rank - axis_or_end(first, rank)?).checked_sub(shape.len());
    let Some(behind) = behind else { return refuse("the second input has too many axes") };
    shape.extend(std::iter::repeat_n(1, behind));
    reshape(at, b, &shape)
}

fn binary(node: &mut NodeDef<'_, '_>, op: BinaryOp) -> Made {
    let first = first_axis(node)?;
    operator(node, move |at, inputs| {
        if op == BinaryOp::Equal && inputs.value(0).and_then(strings_shape).is_some() {
            return Err(equal_texts());
        }
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let b = aligned(at, a, b, first)?;
        one(pair(at, op, a, b)?)
    })
}

fn bit_shift(node: &mut NodeDef<'_, '_>) -> Made {
    match node.attributes.string_or("direction", "")? {
        "LEFT" => binary(node, BinaryOp::ShiftLeft),
        "RIGHT" => binary(node, BinaryOp::ShiftRight),
        other => unknown("direction", other),
    }
}

fn modulo(node: &mut NodeDef<'_, '_>) -> Made {
    let of_dividend = node.attributes.flag("fmod", false)?;
    binary(node, if of_dividend { BinaryOp::Fmod } else { BinaryOp::Mod })
}

/// The exponent may have another type; the result has that of the base.
fn pow(node: &mut NodeDef<'_, '_>) -> Made {
    let first = first_axis(node)?;
    operator(node, move |at, inputs| {
        let (base, exponent) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let exponent = aligned(at, base, exponent, first)?;
        let dtype = at.dtype(base);
        if at.dtype(exponent).is_float() && !dtype.is_float() {
            // A power of an integer with a fraction is computed as it is, and cut off.
            let base = cast(at, base, DType::F64)?;
            let exponent = cast(at, exponent, DType::F64)?;
            let power = pair(at, BinaryOp::Pow, base, exponent)?;
            return one(cast(at, power, dtype)?);
        }
        let exponent = cast(at, exponent, dtype)?;
        one(pair(at, BinaryOp::Pow, base, exponent)?)
    })
}

/// Slopes repeat over the input. Up to operator set 6 there is one per channel.
fn prelu(node: &mut NodeDef<'_, '_>) -> Made {
    node.attributes.ignore(&["consumed_inputs"]);
    let per_channel = node.version < 7;
    operator(node, move |at, inputs| {
        let (input, slope) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let first = (per_channel && at.rank(slope) == 1 && at.rank(input) > 1).then_some(1);
        let slope = if at.shape(slope)[..] == [1] {
            reshape(at, slope, &[])?
        } else {
            aligned(at, input, slope, first)?
        };
        one(pair(at, BinaryOp::Prelu, input, slope)?)
    })
}

/// Any number of inputs, one after the other.
fn several(node: &mut NodeDef<'_, '_>, op: BinaryOp, mean: bool) -> Made {
    node.attributes.ignore(&["consumed_inputs"]);
    operator(node, move |at, inputs| {
        let tensors = inputs.tensors()?;
        let Some((&first, others)) = tensors.split_first() else {
            return refuse("there are no inputs");
        };
        let dtype = at.dtype(first);
        // Sums of several numbers are rounded once.
        let widened = op == BinaryOp::Add && others.len() > 1 && dtype != wide(dtype);
        let computed = if widened && dtype.is_float() { wide(dtype) } else { dtype };
        let mut result = cast(at, first, computed)?;
        for &other in others {
            let other = cast(at, other, computed)?;
            result = pair(at, op, result, other)?;
        }
        if mean {
            result = with_number(at, BinaryOp::Div, result, tensors.len() as f64)?;
        }
        one(cast(at, result, dtype)?)
    })
}

/// A limit that follows from the model is a parameter; one that a call brings is the other side of a maximum.
fn clip(node: &mut NodeDef<'_, '_>) -> Made {
    let (low, high) = (node.attributes.float("min")?, node.attributes.float("max")?);
    node.attributes.ignore(&["consumed_inputs"]);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        if inputs.len() <= 1 {
            let scalar = |limit: Option<f32>| limit.map(Scalar::from);
            return one(at.apply(Op::Clip { min: scalar(low), max: scalar(high) }, &[input])?);
        }
        let (low, high) = (inputs.optional(1)?, inputs.optional(2)?);
        if let (Some(min), Some(max)) = (known_limit(at, low)?, known_limit(at, high)?) {
            return one(at.apply(Op::Clip { min, max }, &[input])?);
        }
        let mut result = input;
        for (limit, op) in [(low, BinaryOp::Max), (high, BinaryOp::Min)] {
            let Some(limit) = limit else { continue };
            if at.shape(limit).iter().any(|&size| size != 1) {
                return refuse("a limit is not one number");
            }
            let limit = reshape(at, limit, &[])?;
            result = pair(at, op, result, limit)?;
        }
        one(result)
    })
}

/// The limit that follows from the model, or that there is none; `None` if only a call knows, or it is no number.
fn known_limit(at: &Expander<'_>, limit: Option<Edge>) -> Expanded<Option<Option<Scalar>>> {
    match limit {
        None => Ok(Some(None)),
        Some(edge) if at.is_constant(edge) => {
            let limit = at.scalar(edge)?;
            Ok((!limit.as_f64().is_nan()).then_some(Some(limit)))
        }
        Some(_) => Ok(None),
    }
}

//! Features as models want them: scaled, normalized, filled in.

use millstream_core::{BinaryOp, DType, Op, ReduceOp, Scalar, UnaryOp};
use millstream_graph::{Array, Edge, Expanded, Expander};

use super::super::common::{
    Made, cast, choose, each, one, pair, reduce, refusal, refuse, reshape, with_number,
};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[
    ("ArrayFeatureExtractor", extract),
    ("Binarizer", binarize),
    ("FeatureVectorizer", vectorize),
    ("Imputer", impute),
    ("Normalizer", normalize),
    ("Scaler", scale),
];

/// One number for all features, or one for each.
fn per_feature(at: &mut Expander<'_>, values: &[f32], features: usize) -> Expanded<Edge> {
    if values.len() != 1 && values.len() != features {
        return refuse(format!("{} numbers for {features} features", values.len()));
    }
    Ok(at.constant(Array::from_slice(values, &[values.len()])?))
}

fn scale(node: &mut NodeDef<'_, '_>) -> Made {
    let offset = node.attributes.floats("offset")?.unwrap_or_default().to_vec();
    let scale = node.attributes.floats("scale")?.unwrap_or_default().to_vec();
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let features = at.shape(input).last().copied().unwrap_or(1);
        let mut result = cast(at, input, DType::F32)?;
        for (values, op) in [(&offset, BinaryOp::Sub), (&scale, BinaryOp::Mul)] {
            if !values.is_empty() {
                let values = per_feature(at, values, features)?;
                result = pair(at, op, result, values)?;
            }
        }
        one(result)
    })
}

fn binarize(node: &mut NodeDef<'_, '_>) -> Made {
    let threshold = node.attributes.float_or("threshold", 0.0)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let dtype = at.dtype(input);
        let compared = if dtype.is_float() { input } else { cast(at, input, DType::F64)? };
        let above = with_number(at, BinaryOp::Greater, compared, threshold)?;
        one(cast(at, above, dtype)?)
    })
}

fn normalize(node: &mut NodeDef<'_, '_>) -> Made {
    let norm = node.attributes.string_or("norm", "MAX")?;
    let (inner, sum, root) = match norm {
        "MAX" => (None, ReduceOp::Max, false),
        "L1" => (Some(UnaryOp::Abs), ReduceOp::Sum, false),
        "L2" => (Some(UnaryOp::Square), ReduceOp::Sum, true),
        other => return Err(refusal(format!("norm {other:?}"))),
    };
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let input = cast(at, input, DType::F32)?;
        // Features are the last axis but for pictures, whose second axis they are.
        let along = match at.rank(input) {
            0 => return refuse("a number has no features"),
            1 => 0,
            _ => 1,
        };
        let sizes = match inner {
            Some(op) => each(at, op, input)?,
            None => input,
        };
        let mut length = reduce(at, sum, sizes, &[along])?;
        if root {
            length = each(at, UnaryOp::Sqrt, length)?;
        }
        // What has no length stays as it is.
        let nothing = with_number(at, BinaryOp::Equal, length, 0.0f32)?;
        let one_for_it = at.number(1.0f32, DType::F32)?;
        let length = choose(at, nothing, one_for_it, length)?;
        one(pair(at, BinaryOp::Div, input, length)?)
    })
}

fn impute(node: &mut NodeDef<'_, '_>) -> Made {
    let attributes = &node.attributes;
    let floats = attributes.floats("imputed_value_floats")?.unwrap_or_default();
    let ints = attributes.ints("imputed_value_int64s")?.unwrap_or_default();
    let (float, int) = (
        attributes.float_or("replaced_value_float", 0.0)?,
        attributes.int_or("replaced_value_int64", 0)?,
    );
    let new: Vec<Scalar> = match floats.is_empty() {
        false => floats.iter().map(|&value| value.into()).collect(),
        true => ints.iter().map(|&value| value.into()).collect(),
    };
    let old: Scalar = if floats.is_empty() { int.into() } else { float.into() };
    let missing = !floats.is_empty() && float.is_nan();
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let (dtype, shape) = (at.dtype(input), at.shape(input));
        let features = shape.last().copied().unwrap_or(1);
        let new = if new.len() == 1 || new.len() == features {
            &new[..]
        } else {
            &new[..new.len().min(1)]
        };
        if new.is_empty() {
            return refuse("there is nothing to put in");
        }
        let new = at.constant(Array::of_scalars(dtype, &[new.len()], new)?);
        let gone = match missing {
            true => each(at, UnaryOp::IsNan, input)?,
            false => with_number(at, BinaryOp::Equal, input, old)?,
        };
        one(choose(at, gone, new, input)?)
    })
}

/// Features of several inputs beside each other.
fn vectorize(node: &mut NodeDef<'_, '_>) -> Made {
    let widths = node.attributes.ints("inputdimensions")?.unwrap_or_default().to_vec();
    operator(node, move |at, inputs| {
        let mut parts = Vec::with_capacity(inputs.len());
        for (index, &width) in widths.iter().enumerate().take(inputs.len()) {
            let input = inputs.tensor(index)?;
            let input = cast(at, input, DType::F32)?;
            let shape = at.shape(input);
            let (rows, own) = match shape[..] {
                [own] => (1, own),
                [rows, ..] => (rows, shape[1..].iter().product()),
                [] => return refuse("a number has no features"),
            };
            let part = reshape(at, input, &[rows, own])?;
            parts.push(fitted(at, part, width)?);
        }
        if parts.is_empty() {
            return refuse("there are no features");
        }
        one(at.concat(1, &parts)?)
    })
}

/// As many columns as wanted: further ones are cut off, missing ones are 0.
fn fitted(at: &mut Expander<'_>, input: Edge, width: i64) -> Expanded<Edge> {
    let Ok(width) = usize::try_from(width) else { return refuse(format!("{width} features")) };
    let &[rows, own] = &at.shape(input)[..] else { return refuse("rows and columns") };
    if own >= width {
        return super::super::common::slice(at, input, 1, 0, width);
    }
    let rest = super::super::common::fill(at, 0.0f32, DType::F32, &[rows, width - own])?;
    at.concat(1, &[input, rest])
}

/// Some columns of the last axis.
fn extract(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let (input, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let rank = at.rank(input);
        let count = super::super::common::elements(&at.shape(indices));
        if rank == 0 || count == 0 {
            return refuse("there is nothing to extract");
        }
        let indices = reshape(at, indices, &[count])?;
        // What is negative counts from behind in other operators; here it is outside.
        let picked = at.apply(Op::Gather { axis: (rank - 1) as u8 }, &[input, indices])?;
        if rank == 1 {
            return one(reshape(at, picked, &[1, count])?);
        }
        one(picked)
    })
}

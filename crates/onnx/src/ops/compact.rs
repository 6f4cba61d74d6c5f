//! Operators of whose results only the data knows the size: room for all that there may be is filled, and cut to the size that
//! turns out.

use millstream_core::{DType, Op};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{Made, axis, cast, elements, fill, many, one, reshape, size_of_axis, slice};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("Compress", compress),
    ("NonMaxSuppression", non_max_suppression),
    ("NonZero", non_zero),
    ("Unique", unique),
];

/// What an operation makes, and how many of it were found, which its last output says.
fn counted(
    at: &mut Expander<'_>,
    op: Op,
    inputs: impl FnOnce(&mut Expander<'_>) -> Expanded<Vec<Edge>>,
) -> Expanded<(Vec<Edge>, usize)> {
    let mut made = at.kept(|at| {
        let inputs = inputs(at)?;
        at.apply_all(op, &inputs)
    })?;
    let Some(count) = made.pop() else { return Ok((made, 0)) };
    let count = at.scalar(count)?.as_i64();
    Ok((made, super::common::size(count)?))
}

fn non_zero(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let input = inputs.tensor(0)?;
        let (made, count) = counted(at, Op::NonZero, |at| {
            // A number without axes counts as a vector of one.
            Ok(vec![if at.rank(input) == 0 { reshape(at, input, &[1])? } else { input }])
        })?;
        one(slice(at, made[0], 1, 0, count)?)
    })
}

fn compress(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int("axis")?;
    operator(node, move |at, inputs| {
        let (input, condition) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let rank = at.rank(input);
        let along = along.map(|along| axis(along, rank)).transpose()?;
        let most = match along {
            Some(axis) => at.shape(input)[axis],
            None => elements(&at.shape(input)),
        };
        let (made, count) =
            counted(at, Op::Compress { axis: along.map(|axis| axis as u8) }, |at| {
                let given = size_of_axis(at, condition, 0)?;
                let condition = slice(at, condition, 0, 0, given.min(most))?;
                Ok(vec![input, condition])
            })?;
        one(slice(at, made[0], along.unwrap_or(0), 0, count)?)
    })
}

/// The one of `com.microsoft`: numbers as they come first, where each of the input's is among them, and how often.
pub(super) fn unique_in_order(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let input = inputs.tensor(0)?;
        let op = Op::Unique { axis: None, sorted: false };
        let (made, count) = counted(at, op, |_| Ok(vec![input]))?;
        let [values, _, inverse, counts] = made[..] else { return many(made) };
        let values = slice(at, values, 0, 0, count)?;
        let counts = slice(at, counts, 0, 0, count)?;
        many([values, inverse, counts])
    })
}

fn unique(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int("axis")?;
    let sorted = node.attributes.flag("sorted", true)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let along = along.map(|along| axis(along, at.rank(input))).transpose()?;
        let op = Op::Unique { axis: along.map(|axis| axis as u8), sorted };
        let (made, count) = counted(at, op, |_| Ok(vec![input]))?;
        let [values, first, inverse, counts] = made[..] else { return many(made) };
        let values = slice(at, values, along.unwrap_or(0), 0, count)?;
        let first = slice(at, first, 0, 0, count)?;
        let counts = slice(at, counts, 0, 0, count)?;
        many([values, first, inverse, counts])
    })
}

fn non_max_suppression(node: &mut NodeDef<'_, '_>) -> Made {
    let centered = node.attributes.flag("center_point_box", false)?;
    operator(node, move |at, inputs| {
        let (boxes, scores) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let number = |at: &Expander<'_>, index: usize| -> Expanded<Option<f64>> {
            match inputs.optional(index)? {
                Some(edge) => Ok(Some(at.scalar(edge)?.as_f64())),
                None => Ok(None),
            }
        };
        let most = number(at, 2)?.unwrap_or(0.0) as usize;
        let (overlap, score) = (number(at, 3)?.unwrap_or(0.0), number(at, 4)?);
        if most == 0 {
            return one(fill(at, 0i64, DType::I64, &[0, 3])?);
        }
        let op = Op::NonMaxSuppression {
            most,
            overlap: overlap as f32,
            score: score.map(|score| score as f32),
            centered,
        };
        let (made, count) = counted(at, op, |at| {
            Ok(vec![cast(at, boxes, DType::F32)?, cast(at, scores, DType::F32)?])
        })?;
        one(slice(at, made[0], 0, 0, count)?)
    })
}

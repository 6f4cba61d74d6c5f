//! Operators that pick or replace elements by index.

use millstream_core::{Axes, BinaryOp, DType, Op, ScatterReduction};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{
    Made, along, axis, axis_or_end, cast, choose, iota, many, one, pair, refuse, reshape, size,
    slice, unknown, unsqueeze, with_number,
};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("OneHot", one_hot),
    ("ReverseSequence", reverse_sequence),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
    ("TopK", top_k),
];

fn gather(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", 0)?;
    operator(node, move |at, inputs| {
        let (input, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let along = axis(along, at.rank(input))?;
        one(at.apply(Op::Gather { axis: along as u8 }, &[input, indices])?)
    })
}

fn gather_elements(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", 0)?;
    operator(node, move |at, inputs| {
        let (input, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let along = axis(along, at.rank(input))?;
        one(at.apply(Op::GatherElements { axis: along as u8 }, &[input, indices])?)
    })
}

fn gather_nd(node: &mut NodeDef<'_, '_>) -> Made {
    let batch_axes = node.attributes.int_or("batch_dims", 0)?;
    operator(node, move |at, inputs| {
        let (input, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let batch_axes = axis_or_end(batch_axes, at.rank(input))? as u8;
        one(at.apply(Op::GatherNd { batch_axes }, &[input, indices])?)
    })
}

fn reduction(node: &NodeDef<'_, '_>) -> Result<ScatterReduction> {
    Ok(match node.attributes.string_or("reduction", "none")? {
        "none" => ScatterReduction::Replace,
        "add" => ScatterReduction::Add,
        "mul" => ScatterReduction::Multiply,
        "max" => ScatterReduction::Max,
        "min" => ScatterReduction::Min,
        other => return unknown("reduction", other),
    })
}

fn scatter_elements(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", 0)?;
    let reduction = reduction(node)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let axis = axis(along, at.rank(input))? as u8;
        one(at.apply(Op::ScatterElements { axis, reduction }, &inputs.tensors()?)?)
    })
}

fn scatter_nd(node: &mut NodeDef<'_, '_>) -> Made {
    let reduction = reduction(node)?;
    operator(
        node,
        move |at, inputs| one(at.apply(Op::ScatterNd { reduction }, &inputs.tensors()?)?),
    )
}

/// A cache of keys or values, with a part of each batch replaced.
fn tensor_scatter(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", -2)?;
    let circular = match node.attributes.string_or("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => return unknown("mode", other),
    };
    operator(node, move |at, inputs| {
        let (cache, update) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let positions = inputs.optional(2)?;
        let axis = axis(along, at.rank(cache))? as u8;
        let op = Op::CacheWrite { axis, circular, positions: positions.is_some() };
        let given: Vec<Edge> = [cache, update].into_iter().chain(positions).collect();
        one(at.apply(op, &given)?)
    })
}

fn top_k(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", -1)?;
    let attribute = node.attributes.int("k")?;
    let largest = node.attributes.flag("largest", true)?;
    let sorted = node.attributes.flag("sorted", true)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let k = match attribute {
            Some(k) => k,
            None => at.scalar(inputs.tensor(1)?)?.as_i64(),
        };
        let (axis, k) = (axis(along, at.rank(input))? as u8, size(k)?);
        many(at.apply_all(Op::TopK { axis, k, largest, sorted }, &[input])?)
    })
}

/// Negative indices count from the end; others outside have the off value everywhere.
fn one_hot(node: &mut NodeDef<'_, '_>) -> Made {
    let new_axis = node.attributes.int_or("axis", -1)?;
    operator(node, move |at, inputs| {
        let (indices, values) = (inputs.tensor(0)?, inputs.tensor(2)?);
        let count = at.scalar(inputs.tensor(1)?)?.as_i64();
        let rank = at.rank(indices);
        let place = axis(new_axis, rank + 1)?;
        let indices = cast(at, indices, DType::I64)?;
        let negative = with_number(at, BinaryOp::Less, indices, 0i64)?;
        let from_end = with_number(at, BinaryOp::Add, indices, count)?;
        let indices = choose(at, negative, from_end, indices)?;
        let indices = unsqueeze(at, indices, place)?;
        let classes = iota(at, DType::I64, &[size(count)?], 0)?;
        let classes = along(at, classes, rank + 1, place)?;
        let here = pair(at, BinaryOp::Equal, indices, classes)?;
        if at.shape(values)[..] != [2] {
            return refuse("values are not an off and an on value");
        }
        let off = scalar_of(at, values, 0)?;
        let on = scalar_of(at, values, 1)?;
        if at.dtype(values) == DType::Bool {
            // Truth values are chosen as numbers.
            let (off, on) = (cast(at, off, DType::U8)?, cast(at, on, DType::U8)?);
            let chosen = choose(at, here, on, off)?;
            return one(cast(at, chosen, DType::Bool)?);
        }
        one(choose(at, here, on, off)?)
    })
}

/// One element of a vector, without axes.
fn scalar_of(at: &mut Expander<'_>, vector: Edge, index: usize) -> Expanded<Edge> {
    let part = slice(at, vector, 0, index, 1)?;
    reshape(at, part, &[])
}

fn reverse_sequence(node: &mut NodeDef<'_, '_>) -> Made {
    let batch_axis = node.attributes.int_or("batch_axis", 1)?;
    let time_axis = node.attributes.int_or("time_axis", 0)?;
    operator(node, move |at, inputs| {
        let (input, lengths) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let rank = at.rank(input);
        let (batch, time) = (axis(batch_axis, rank)?, axis(time_axis, rank)?);
        let op = Op::Reverse { axes: Axes::new(&[time])?, batch_axis: Some(batch as u8) };
        one(at.apply(op, &[input, lengths])?)
    })
}

//! Operators that arrange elements anew.

use millstream_core::{Axes, Op};
use millstream_graph::{Edge, Expanded, Expander, Sizes, Value, View};

use super::common::{
    Made, axes, axis, axis_or_end, broadcast, elements, given_integers, one, permute, refuse,
    reshape, size, sizes, slice,
};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("Concat", concat),
    ("Expand", expand),
    ("Flatten", flatten),
    ("Identity", |node| operator(node, |_, inputs| Ok(vec![inputs.required(0)?.clone()]))),
    ("Reshape", reshape_to),
    ("Slice", slice_of),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Transpose", transpose),
    ("Unsqueeze", unsqueeze),
];

fn concat(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", 1)?;
    operator(node, move |at, inputs| {
        let tensors = inputs.tensors()?;
        let shapes: Vec<Sizes> = tensors.iter().map(|&tensor| at.shape(tensor)).collect();
        one(joined(at, along, &tensors, &shapes)?)
    })
}

/// Tensors of these shapes one behind the other.
pub(super) fn joined(
    at: &mut Expander<'_>,
    along: i64,
    tensors: &[Edge],
    shapes: &[Sizes],
) -> Expanded<Edge> {
    let Some(reference) = reference(shapes) else { return refuse("there is nothing to join") };
    let along = axis(along, reference.len())?;
    let pairs = tensors.iter().zip(shapes);
    let kept: Vec<Edge> = pairs
        .filter(|(_, shape)| counts(shape, reference, along))
        .map(|(&tensor, _)| tensor)
        .collect();
    at.concat(along, &kept)
}

/// The shape that others have to fit: the first that is not empty, or else the first.
pub(super) fn reference(shapes: &[Sizes]) -> Option<&[usize]> {
    let filled = shapes.iter().find(|shape| !shape.contains(&0));
    filled.or(shapes.first()).map(|shape| &shape[..])
}

/// Whether a tensor counts where tensors are joined. One that is empty need not fit the others, as in onnxruntime: loops without
/// rounds make such, and PyTorch's models an empty vector for "nothing yet".
pub(super) fn counts(shape: &[usize], reference: &[usize], along: usize) -> bool {
    let fits = || (0..shape.len()).all(|axis| axis == along || shape[axis] == reference[axis]);
    !shape.contains(&0) || (shape.len() == reference.len() && fits())
}

/// Both sides repeat: a 1 in the shape keeps the size that is there.
fn expand(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let input = inputs.tensor(0)?;
        let wanted = at.integers(inputs.tensor(1)?)?;
        let shape = millstream_core::broadcast_shapes(&at.shape(input), &sizes(&wanted)?)?;
        one(broadcast(at, input, &shape)?)
    })
}

fn flatten(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", 1)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let shape = at.shape(input);
        let along = axis_or_end(along, shape.len())?;
        one(reshape(at, input, &[elements(&shape[..along]), elements(&shape[along..])])?)
    })
}

fn reshape_to(node: &mut NodeDef<'_, '_>) -> Made {
    let attribute = node.attributes.ints("shape")?.map(<[i64]>::to_vec);
    let zero_is_zero = node.attributes.flag("allowzero", false)?;
    node.attributes.ignore(&["consumed_inputs"]);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let wanted = match &attribute {
            Some(shape) => shape.clone(),
            None => at.integers(inputs.tensor(1)?)?,
        };
        if let Some(shape) = grown_shape(at, input, &wanted, zero_is_zero) {
            return one(reshape(at, input, &shape)?);
        }
        let shape = resolve_shape(&at.shape(input), &wanted, zero_is_zero)?;
        one(reshape(at, input, &shape)?)
    })
}

/// The shape for several calls of a model that fixes it for one: the first size is theirs. None if the shape is right as it is.
fn grown_shape(
    at: &Expander<'_>,
    input: Edge,
    wanted: &[i64],
    zero_is_zero: bool,
) -> Option<Sizes> {
    let (calls, from) = (at.fixed_calls(), at.shape(input));
    if calls == 1 || at.is_constant(input) {
        return None;
    }
    let &first = wanted.first().filter(|&&first| first > 0)?;
    // A size that is left open takes up any number of elements, so what grows has to be a batch for certain.
    if wanted.contains(&-1) && (first != 1 || !from.first()?.is_multiple_of(calls)) {
        return None;
    }
    let mut grown = wanted.to_vec();
    grown[0] = first.checked_mul(i64::try_from(calls).ok()?)?;
    let shape = resolve_shape(&from, &grown, zero_is_zero).ok()?;
    (elements(&shape) == elements(&from)).then_some(shape)
}

/// A shape in which 0 copies a size, and one -1 is what is left.
fn resolve_shape(from: &[usize], wanted: &[i64], zero_is_zero: bool) -> Expanded<Sizes> {
    let mut shape = Sizes::new();
    let mut open = None;
    for (at, &size) in wanted.iter().enumerate() {
        shape.push(match size {
            0 if !zero_is_zero => match from.get(at) {
                Some(&size) => size,
                None => {
                    return refuse(format!("shape {wanted:?} copies a size that {from:?} has not"));
                }
            },
            -1 if open.is_none() => {
                open = Some(at);
                1
            }
            size => super::common::size(size)?,
        });
    }
    if let Some(open) = open {
        let count = |sizes: &[usize], zeros: bool| {
            let counted = sizes.iter().filter(|&&size| zeros || size != 0);
            counted.copied().try_fold(1, usize::checked_mul)
        };
        // Of no elements in a shape with zeros of its own, a -1 is what the other sizes leave, as in onnxruntime.
        let zeros = !(zero_is_zero && shape.contains(&0) && from.contains(&0));
        let (Some(have), Some(rest)) = (count(from, zeros), count(&shape, zeros)) else {
            return refuse(format!("shape {wanted:?} has more elements than can be counted"));
        };
        if rest == 0 || have % rest != 0 {
            return refuse(format!("{from:?} has no view of shape {wanted:?}"));
        }
        shape[open] = have / rest;
    }
    Ok(shape)
}

fn transpose(node: &mut NodeDef<'_, '_>) -> Made {
    let order = node.attributes.ints("perm")?.map(<[i64]>::to_vec);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let rank = at.rank(input);
        let order: Sizes = match &order {
            Some(order) => order.iter().map(|&one| axis(one, rank)).collect::<Expanded<_>>()?,
            None => (0..rank).rev().collect(),
        };
        one(permute(at, input, &order)?)
    })
}

fn squeeze(node: &mut NodeDef<'_, '_>) -> Made {
    let attribute = node.attributes.ints("axes")?.map(<[i64]>::to_vec);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let shape = at.shape(input);
        let gone = match given_integers(at, &attribute, inputs, 1)? {
            Some(given) if !given.is_empty() => axes(&given, shape.len())?,
            // onnxruntime takes no axes for all of them, too.
            _ => (0..shape.len()).filter(|&axis| shape[axis] == 1).collect(),
        };
        if let Some(axis) = gone.iter().find(|&&axis| shape[axis] != 1) {
            return refuse(format!("axis {axis} of {:?} is not of size 1", &shape[..]));
        }
        let left: Sizes =
            (0..shape.len()).filter(|axis| !gone.contains(axis)).map(|axis| shape[axis]).collect();
        one(reshape(at, input, &left)?)
    })
}

fn unsqueeze(node: &mut NodeDef<'_, '_>) -> Made {
    let attribute = node.attributes.ints("axes")?.map(<[i64]>::to_vec);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let shape = at.shape(input);
        let Some(given) = given_integers(at, &attribute, inputs, 1)? else {
            return refuse("axes are not given");
        };
        let new = axes(&given, shape.len() + given.len())?;
        let mut old = shape.iter().copied();
        let wide: Sizes = (0..shape.len() + new.len())
            .map(|axis| if new.contains(&axis) { 1 } else { old.next().unwrap_or(1) })
            .collect();
        one(reshape(at, input, &wide)?)
    })
}

fn slice_of(node: &mut NodeDef<'_, '_>) -> Made {
    let own = |name: &str| -> Result<Option<Vec<i64>>> {
        Ok(node.attributes.ints(name)?.map(<[i64]>::to_vec))
    };
    let (starts, ends, along) = (own("starts")?, own("ends")?, own("axes")?);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let Some(starts) = given_integers(at, &starts, inputs, 1)? else {
            return refuse("starts are not given");
        };
        let Some(ends) = given_integers(at, &ends, inputs, 2)? else {
            return refuse("ends are not given");
        };
        let along = given_integers(at, &along, inputs, 3)?;
        let steps = given_integers(at, &None, inputs, 4)?;
        let along = along.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
        if [ends.len(), along.len(), steps.len()] != [starts.len(); 3] {
            return refuse("starts, ends, axes and steps differ in number");
        }
        let mut result = input;
        for index in 0..starts.len() {
            let axis = axis(along[index], at.rank(input))?;
            result = slice_axis(at, result, axis, starts[index], ends[index], steps[index])?;
        }
        one(result)
    })
}

/// Limits beyond the ends are cut off; negative ones count from behind.
fn slice_axis(
    at: &mut Expander<'_>,
    input: Edge,
    axis: usize,
    start: i64,
    end: i64,
    step: i64,
) -> Expanded<Edge> {
    let size = at.shape(input)[axis] as i64;
    let from_front = |place: i64| if place < 0 { place.saturating_add(size) } else { place };
    if step == 0 {
        return refuse("a step of 0");
    }
    if step > 0 {
        let (start, end) = (from_front(start).clamp(0, size), from_front(end).clamp(0, size));
        let count = if end > start { (end - start - 1) / step + 1 } else { 0 };
        let step = if count > 1 { step as usize } else { 1 };
        let start = if count == 0 { 0 } else { start as usize };
        return at.view(View::Slice { axis, start, count: count as usize, step }, input);
    }
    if size == 0 {
        return slice(at, input, axis, 0, 0);
    }
    // The largest numbers stand for an end that is not known, as onnxruntime has it: taken as a place, nothing would ever lie
    // between the start and it.
    let open = end == i64::MAX || end == i64::from(i32::MAX);
    let end = if open { -1 } else { from_front(end).clamp(-1, size - 1) };
    // A start before the first is the first; an end may lie before it.
    let start = from_front(start).clamp(0, size - 1);
    let back = step.unsigned_abs() as i64;
    let count = if start > end { (start - end - 1) / back + 1 } else { 0 };
    if count == 0 {
        return slice(at, input, axis, 0, 0);
    }
    // Forward from the last one that is wanted, and then turned around.
    let first = start - (count - 1) * back;
    let step = if count > 1 { back as usize } else { 1 };
    let view = View::Slice { axis, start: first as usize, count: count as usize, step };
    let forward = at.view(view, input)?;
    if count == 1 {
        return Ok(forward);
    }
    at.apply(Op::Reverse { axes: Axes::new(&[axis])?, batch_axis: None }, &[forward])
}

fn split(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", 0)?;
    let attribute = node.attributes.ints("split")?.map(<[i64]>::to_vec);
    let pieces = node.attributes.int("num_outputs")?;
    let outputs = node.outputs();
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let along = axis(along, at.rank(input))?;
        let whole = at.shape(input)[along];
        let sizes: Vec<usize> = match given_integers(at, &attribute, inputs, 1)? {
            Some(sizes) => sizes.into_iter().map(size).collect::<Expanded<_>>()?,
            None => {
                let pieces = size(pieces.unwrap_or(outputs as i64))?.max(1);
                if pieces > outputs.max(1) {
                    return refuse(format!("{pieces} pieces for {outputs} outputs"));
                }
                let each = whole.div_ceil(pieces);
                (0..pieces).map(|at| each.min(whole.saturating_sub(at * each))).collect()
            }
        };
        let sum = sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
        if sum != Some(whole) {
            return refuse(format!("sizes {sizes:?} of an axis of {whole}"));
        }
        let mut start = 0;
        let mut parts = Vec::with_capacity(sizes.len());
        for count in sizes {
            parts.push(Value::Tensor(slice(at, input, along, start, count)?));
            start += count;
        }
        Ok(parts)
    })
}

#[cfg(test)]
mod tests;

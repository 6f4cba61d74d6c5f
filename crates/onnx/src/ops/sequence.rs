//! Sequences and optionals.
//!
//! A sequence whose length is known when a stage is compiled costs nothing: its elements are values of the graph. One of any length
//! (a loop makes it longer, or it is long) is left to the host.

use std::sync::Arc;

use millstream_graph::{
    Array, Edge, Expanded, Expander, HostOperator, HostValue, ModelValue, OpaqueKind, Operator,
    Sizes, Stop, Strings, Value,
};
use millstream_nn::Tensor;

use super::arrange::{counts, joined, reference};
use super::common::{axis, one, refusal, refuse, reshape, slice, unsqueeze};
use super::host::{HostInputs, host_function_reading};
use crate::Result;
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("ConcatFromSequence", concat),
    ("SequenceAt", at_position),
    ("SequenceConstruct", |node| {
        operator(node, |_, inputs| {
            let values = (0..inputs.len()).map(|index| inputs.required(index).cloned());
            Ok(vec![Value::Sequence(values.collect::<Expanded<_>>()?)])
        })
    }),
    ("SequenceEmpty", |node| {
        node.attributes.ignore(&["dtype"]);
        operator(node, |_, _| Ok(vec![Value::Sequence(Vec::new())]))
    }),
    ("SequenceErase", erase),
    ("SequenceInsert", insert),
    ("SequenceLength", length),
    ("SplitToSequence", split),
    ("Optional", |node| {
        node.attributes.ignore(&["type"]);
        operator(node, |_, inputs| {
            Ok(vec![Value::Optional(inputs.value(0).cloned().map(Box::new))])
        })
    }),
    ("OptionalGetElement", get_element),
    ("OptionalHasElement", has_element),
];

/// Pieces that a tensor is cut into while it is in the graph. More are cut by the host.
const FEW_PIECES: usize = 32;

/// A place in a sequence; negative ones count from behind. `end` is the place behind the last that is allowed.
fn place(position: i64, end: usize, length: usize) -> Result<usize> {
    let counted = if position < 0 { position.saturating_add(length as i64) } else { position };
    match usize::try_from(counted) {
        Ok(counted) if counted < end => Ok(counted),
        _ => Err(refusal(format!("position {position} of a sequence of {length} values"))),
    }
}

/// The elements of a sequence of the graph. `None` if the host has it.
fn elements<'a>(inputs: &Inputs<'a>) -> Expanded<Option<&'a [Value]>> {
    match inputs.required(0)? {
        Value::Sequence(values) => Ok(Some(values)),
        Value::Opaque(opaque) if *opaque.kind() == OpaqueKind::Sequence => Ok(None),
        Value::Known(known) if matches!(**known, ModelValue::Sequence(_)) => Ok(None),
        other => refuse(format!("a sequence is needed, found {}", other.kind())),
    }
}

/// The position that an input gives, if it does.
fn position(at: &Expander<'_>, inputs: &Inputs<'_>, index: usize) -> Expanded<Option<i64>> {
    match inputs.optional(index)? {
        Some(edge) => Ok(Some(at.scalar(edge)?.as_i64())),
        None => Ok(None),
    }
}

fn host_position(inputs: &HostInputs<'_>, index: usize) -> Result<Option<i64>> {
    match inputs.optional(index)? {
        Some(array) => Ok(Some(array.to_scalar()?.as_i64())),
        None => Ok(None),
    }
}

fn host_elements(inputs: &HostInputs<'_>) -> Result<Arc<Vec<ModelValue>>> {
    inputs.required(0)?.clone().sequence()
}

fn whole(values: Vec<ModelValue>) -> Result<Vec<HostValue>> {
    Ok(vec![HostValue::Whole(Arc::new(values))])
}

/// An operator on a sequence of the graph, or the same by the host.
fn either<F, H>(
    node: &NodeDef<'_, '_>,
    reads: &'static [usize],
    graph: F,
    host: H,
) -> Result<Box<dyn Operator>>
where
    F: Fn(&mut Expander<'_>, &[Value], Inputs<'_>) -> Expanded<Vec<Value>> + Send + Sync + 'static,
    H: Fn(HostInputs<'_>) -> Result<Vec<HostValue>> + Send + Sync + 'static,
{
    let host: Arc<dyn HostOperator> = host_function_reading(node.kind(), reads, host);
    operator(node, move |at, inputs| match elements(&inputs)? {
        Some(values) => graph(at, values, inputs),
        None => Err(Stop::Host(Arc::clone(&host))),
    })
}

fn at_position(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    either(
        node,
        &[1],
        |at, values, inputs| {
            let position = at.scalar(inputs.tensor(1)?)?.as_i64();
            Ok(vec![values[place(position, values.len(), values.len())?].clone()])
        },
        |inputs| {
            let values = host_elements(&inputs)?;
            let position = inputs.array(1)?.to_scalar()?.as_i64();
            Ok(vec![values[place(position, values.len(), values.len())?].clone().into()])
        },
    )
}

fn erase(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    either(
        node,
        &[1],
        |at, values, inputs| {
            let mut values = values.to_vec();
            let position = position(at, &inputs, 1)?.unwrap_or(-1);
            values.remove(place(position, values.len(), values.len())?);
            Ok(vec![Value::Sequence(values)])
        },
        |inputs| {
            let mut values = (*host_elements(&inputs)?).clone();
            let position = host_position(&inputs, 1)?.unwrap_or(-1);
            values.remove(place(position, values.len(), values.len())?);
            whole(values)
        },
    )
}

fn insert(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    either(
        node,
        &[2],
        |at, values, inputs| {
            let (mut values, new) = (values.to_vec(), inputs.required(1)?.clone());
            let end = values.len();
            let position = position(at, &inputs, 2)?.unwrap_or(end as i64);
            values.insert(place(position, end + 1, end)?, new);
            Ok(vec![Value::Sequence(values)])
        },
        |inputs| {
            let mut values = (*host_elements(&inputs)?).clone();
            let new = inputs.required(1)?.clone().into_value(inputs.call())?;
            let end = values.len();
            let position = host_position(&inputs, 2)?.unwrap_or(end as i64);
            values.insert(place(position, end + 1, end)?, new);
            whole(values)
        },
    )
}

fn length(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    either(
        node,
        &[],
        |at, values, _| one(at.constant(Array::scalar(values.len() as i64))),
        |inputs| Ok(vec![Array::scalar(host_elements(&inputs)?.len() as i64).into()]),
    )
}

fn concat(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let along = node.attributes.int("axis")?;
    let Some(along) = along else { return Err(refusal("axis is not given")) };
    let stack = node.attributes.flag("new_axis", false)?;
    let host = host_function_reading(node.kind(), &[], move |inputs| {
        let values = host_elements(&inputs)?;
        if let Some(ModelValue::Strings(first)) = values.first() {
            return Ok(vec![joined_strings(&values, first, along, stack)?.into()]);
        }
        let tensors = values.iter().map(|value| match value {
            ModelValue::Tensor(tensor) => Ok(tensor),
            other => Err(refusal(format!("tensors can be joined, not {}", other.kind()))),
        });
        let tensors: Vec<&Tensor> = tensors.collect::<Result<_>>()?;
        let shapes: Vec<Sizes> =
            tensors.iter().map(|tensor| Sizes::from_slice(tensor.shape())).collect();
        let Some(reference) = reference(&shapes) else {
            return Err(refusal("the sequence is empty"));
        };
        let axis = counted(along, reference.len() + usize::from(stack))?;
        if stack {
            return Ok(vec![Tensor::stack(&tensors, axis)?.into()]);
        }
        let pairs = tensors.iter().zip(&shapes);
        let kept: Vec<&Tensor> = pairs
            .filter(|(_, shape)| counts(shape, reference, axis))
            .map(|(&tensor, _)| tensor)
            .collect();
        Ok(vec![Tensor::cat(&kept, axis)?.into()])
    });
    operator(node, move |at, inputs| {
        let values = match elements(&inputs)? {
            Some(values) if values.iter().all(|value| matches!(value, Value::Tensor(_))) => values,
            _ => return Err(Stop::Host(Arc::clone(&host))),
        };
        let mut edges: Vec<Edge> = values.iter().map(Value::tensor).collect::<Result<_>>()?;
        let Some(&first) = edges.first() else { return refuse("the sequence is empty") };
        if !stack {
            let shapes: Vec<Sizes> = edges.iter().map(|&edge| at.shape(edge)).collect();
            return one(joined(at, along, &edges, &shapes)?);
        }
        let along = axis(along, at.rank(first) + 1)?;
        for edge in &mut edges {
            *edge = unsqueeze(at, *edge, along)?;
        }
        one(at.concat(along, &edges)?)
    })
}

fn counted(along: i64, rank: usize) -> Result<usize> {
    place(along, rank, rank).map_err(|_| refusal(format!("axis {along} of rank {rank}")))
}

/// Strings one behind the other.
fn joined_strings(
    values: &[ModelValue],
    first: &Strings,
    along: i64,
    stack: bool,
) -> Result<Strings> {
    let mut shape = first.shape().to_vec();
    let axis = counted(along, shape.len() + usize::from(stack))?;
    if stack {
        shape.insert(axis, 1);
    }
    let (before, mut size) = (shape[..axis].iter().product::<usize>(), 0);
    let mut rows: Vec<Vec<String>> = vec![Vec::new(); before];
    for value in values {
        let ModelValue::Strings(strings) = value else {
            return Err(refusal(format!(
                "strings can be joined with strings, not {}",
                value.kind()
            )));
        };
        let mut own = strings.shape().to_vec();
        if stack && axis <= own.len() {
            own.insert(axis, 1);
        }
        let fits =
            own.len() == shape.len() && (0..own.len()).all(|at| at == axis || own[at] == shape[at]);
        if !fits {
            return Err(refusal(format!("strings of shapes {own:?} and {shape:?} are joined")));
        }
        size += own[axis];
        let width = own[axis..].iter().product::<usize>();
        for (row, part) in rows.iter_mut().zip(strings.values().chunks(width.max(1))) {
            row.extend_from_slice(part);
        }
    }
    shape[axis] = size;
    Strings::new(&shape, rows.concat())
}

/// Sizes of the pieces along an axis.
fn pieces(split: Option<&[i64]>, scalar: bool, whole: usize) -> Result<Vec<usize>> {
    let sizes: Vec<i64> = match split {
        None => return Ok(vec![1; whole]),
        Some([size]) if scalar => {
            if *size <= 0 {
                return Err(refusal(format!("pieces of size {size}")));
            }
            let size = usize::try_from(*size).unwrap_or(usize::MAX).min(whole.max(1));
            let mut sizes = vec![size; whole / size];
            if !whole.is_multiple_of(size) {
                sizes.push(whole % size);
            }
            return Ok(sizes);
        }
        Some(sizes) => sizes.to_vec(),
    };
    let mut found = Vec::with_capacity(sizes.len());
    for &size in &sizes {
        found.push(usize::try_from(size).map_err(|_| refusal(format!("a piece of size {size}")))?);
    }
    let sum = found.iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
    if sum != Some(whole) {
        return Err(refusal(format!("pieces {sizes:?} of an axis of {whole}")));
    }
    Ok(found)
}

fn split(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    let along = node.attributes.int_or("axis", 0)?;
    let keep = node.attributes.flag("keepdims", true)?;
    let host = host_function_reading(node.kind(), &[1], move |inputs| {
        let tensor = inputs.required(0)?.tensor(inputs.call())?;
        let axis = counted(along, tensor.rank())?;
        let split = inputs.optional(1)?;
        let scalar = split.as_ref().is_some_and(|split| split.shape().is_empty());
        let given = split.as_ref().map(Array::to_i64s).transpose()?;
        let (mut start, mut values) = (0usize, Vec::new());
        for size in pieces(given.as_deref(), scalar, tensor.dim(axis)?)? {
            let mut piece = tensor.narrow(axis, start, size)?;
            if given.is_none() && !keep {
                piece = piece.squeeze(axis)?;
            }
            values.push(ModelValue::Tensor(piece));
            start += size;
        }
        whole(values)
    });
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let mut shape = at.shape(input);
        let axis = axis(along, shape.len())?;
        let split = inputs.optional(1)?;
        let given = split.map(|edge| at.integers(edge)).transpose()?;
        let scalar = split.is_some_and(|edge| at.rank(edge) == 0);
        let sizes = pieces(given.as_deref(), scalar, shape[axis])?;
        if sizes.len() > FEW_PIECES {
            return Err(Stop::Host(Arc::clone(&host)));
        }
        shape.remove(axis);
        let (mut start, mut values) = (0, Vec::with_capacity(sizes.len()));
        for size in sizes {
            let mut piece = slice(at, input, axis, start, size)?;
            if given.is_none() && !keep {
                piece = reshape(at, piece, &shape)?;
            }
            values.push(Value::Tensor(piece));
            start += size;
        }
        Ok(vec![Value::Sequence(values)])
    })
}

/// What an optional holds. A value that is no optional is itself.
fn held(value: &Value) -> Expanded<Option<Value>> {
    match value {
        Value::Optional(held) => Ok(held.as_deref().cloned()),
        Value::Known(known) => match &**known {
            ModelValue::Optional(held) => {
                Ok(held.as_ref().map(|held| Value::Known(Arc::new((**held).clone()))))
            }
            _ => Ok(Some(value.clone())),
        },
        Value::Tensor(_) | Value::Sequence(_) | Value::Opaque(_) => Ok(Some(value.clone())),
    }
}

fn get_element(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    operator(node, |_, inputs| match held(inputs.required(0)?)? {
        Some(value) => Ok(vec![value]),
        None => refuse("the optional is empty"),
    })
}

fn has_element(node: &mut NodeDef<'_, '_>) -> Result<Box<dyn Operator>> {
    operator(node, |at, inputs| {
        let has = match inputs.value(0) {
            Some(value) => held(value)?.is_some(),
            None => false,
        };
        one(at.constant(Array::truth(has)))
    })
}

//! What many operators need.

use millstream_core::{Axes, DType, Op, Scalar};
use millstream_graph::{Edge, Expanded, Expander, Sizes, Value, View};

use crate::Error;

/// One tensor as all outputs.
pub(crate) fn one(edge: Edge) -> Expanded<Vec<Value>> {
    Ok(vec![Value::Tensor(edge)])
}

/// An error in words.
pub(crate) fn refuse<T>(reason: impl Into<String>) -> Expanded<T> {
    Err(refusal(reason).into())
}

/// The same, outside of expanding.
pub(crate) fn refusal(reason: impl Into<String>) -> Error {
    Error::Invalid { op: "onnx", reason: reason.into() }
}

/// An axis counted from the front. Negative ones count from behind.
pub(crate) fn axis(axis: i64, rank: usize) -> Expanded<usize> {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(counted) {
        Ok(counted) if counted < rank => Ok(counted),
        _ => refuse(format!("axis {axis} of a tensor of rank {rank}")),
    }
}

/// As [`axis`], where the place behind the last axis is one too.
pub(crate) fn axis_or_end(axis: i64, rank: usize) -> Expanded<usize> {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(counted) {
        Ok(counted) if counted <= rank => Ok(counted),
        _ => refuse(format!("axis {axis} of a tensor of rank {rank}")),
    }
}

/// Several different axes, in rising order.
pub(crate) fn axes(given: &[i64], rank: usize) -> Expanded<Vec<usize>> {
    let mut found = Vec::with_capacity(given.len());
    for &one in given {
        found.push(axis(one, rank)?);
    }
    found.sort_unstable();
    if found.windows(2).any(|pair| pair[0] == pair[1]) {
        return refuse(format!("axes {given:?} name one twice"));
    }
    Ok(found)
}

/// The same as a set.
pub(crate) fn axis_set(axes: &[usize]) -> Expanded<Axes> {
    Ok(Axes::new(axes)?)
}

/// A tensor in another shape.
pub(crate) fn reshape(at: &mut Expander<'_>, input: Edge, shape: &[usize]) -> Expanded<Edge> {
    at.view(View::Reshape(Sizes::from_slice(shape)), input)
}

/// A tensor with its axes in another order.
pub(crate) fn permute(at: &mut Expander<'_>, input: Edge, order: &[usize]) -> Expanded<Edge> {
    at.view(View::Permute(Sizes::from_slice(order)), input)
}

/// A part of an axis.
pub(crate) fn slice(
    at: &mut Expander<'_>,
    input: Edge,
    axis: usize,
    start: usize,
    count: usize,
) -> Expanded<Edge> {
    at.view(View::Slice { axis, start, count, step: 1 }, input)
}

/// A tensor repeated to a shape.
pub(crate) fn broadcast(at: &mut Expander<'_>, input: Edge, shape: &[usize]) -> Expanded<Edge> {
    at.view(View::Broadcast(Sizes::from_slice(shape)), input)
}

/// A tensor as another element type.
pub(crate) fn cast(at: &mut Expander<'_>, input: Edge, dtype: DType) -> Expanded<Edge> {
    if at.dtype(input) == dtype {
        return Ok(input);
    }
    at.apply(Op::Copy { dtype, saturate: true }, &[input])
}

/// A tensor of one value.
pub(crate) fn fill(
    at: &mut Expander<'_>,
    value: impl Into<Scalar>,
    dtype: DType,
    shape: &[usize],
) -> Expanded<Edge> {
    let spec = millstream_core::TensorSpec::new(dtype, shape)?;
    at.apply(Op::Fill { value: value.into(), spec }, &[])
}

/// A size that a file gives as a number.
pub(crate) fn size(value: i64) -> Expanded<usize> {
    usize::try_from(value).or_else(|_| refuse(format!("size {value}")))
}

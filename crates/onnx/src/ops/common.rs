//! What many operators need.

use millstream_core::{
    Axes, BinaryOp, DType, IotaParams, Op, ReduceOp, Scalar, TensorSpec, UnaryOp,
};
use millstream_graph::{Array, Edge, Expanded, Expander, Operator, Sizes, Value, View};

use crate::inputs::Inputs;
use crate::{Error, Result};

/// An operator that was made, or why it was not.
pub(crate) type Made = Result<Box<dyn Operator>>;

/// One tensor as all outputs.
pub(crate) fn one(edge: Edge) -> Expanded<Vec<Value>> {
    Ok(vec![Value::Tensor(edge)])
}

/// Tensors as outputs.
pub(crate) fn many(edges: impl IntoIterator<Item = Edge>) -> Expanded<Vec<Value>> {
    Ok(edges.into_iter().map(Value::Tensor).collect())
}

/// An error in words.
pub(crate) fn refuse<T>(reason: impl Into<String>) -> Expanded<T> {
    Err(refusal(reason).into())
}

/// The same, outside of expanding.
pub(crate) fn refusal(reason: impl Into<String>) -> Error {
    Error::Invalid { op: "onnx", reason: reason.into() }
}

/// An attribute that has none of the values that it may have.
pub(crate) fn unknown<T>(attribute: &str, value: impl std::fmt::Display) -> Result<T> {
    Err(refusal(format!("{attribute} is {value}, which is not known")))
}

/// An axis counted from the front. Negative ones count from behind.
pub(crate) fn axis(axis: i64, rank: usize) -> Expanded<usize> {
    match axis_or_end(axis, rank)? {
        counted if counted < rank => Ok(counted),
        _ => refuse(format!("axis {axis} of a tensor of rank {rank}")),
    }
}

/// As [`axis`], where the place behind the last axis is one too.
pub(crate) fn axis_or_end(axis: i64, rank: usize) -> Expanded<usize> {
    let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
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

/// Integers of an attribute, or of an input that newer operator sets have instead.
pub(crate) fn given_integers(
    at: &Expander<'_>,
    attribute: &Option<Vec<i64>>,
    inputs: Inputs<'_>,
    index: usize,
) -> Expanded<Option<Vec<i64>>> {
    match (attribute, inputs.optional(index)?) {
        (Some(values), _) => Ok(Some(values.clone())),
        (None, Some(edge)) => Ok(Some(at.integers(edge)?)),
        (None, None) => Ok(None),
    }
}

/// How many elements a shape has.
pub(crate) fn elements(shape: &[usize]) -> usize {
    shape.iter().product()
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

/// The size of an axis of a tensor that may have fewer.
pub(crate) fn size_of_axis(at: &Expander<'_>, input: Edge, axis: usize) -> Expanded<usize> {
    let shape = at.shape(input);
    match shape.get(axis) {
        Some(&size) => Ok(size),
        None => refuse(format!("a tensor of rank {} has no axis {axis}", shape.len())),
    }
}

/// A tensor with a further axis of size 1.
pub(crate) fn unsqueeze(at: &mut Expander<'_>, input: Edge, axis: usize) -> Expanded<Edge> {
    let mut shape = at.shape(input);
    if axis > shape.len() {
        return refuse(format!("a tensor of rank {} has no place for an axis {axis}", shape.len()));
    }
    shape.insert(axis, 1);
    reshape(at, input, &shape)
}

/// A tensor without an axis of size 1.
pub(crate) fn squeeze(at: &mut Expander<'_>, input: Edge, axis: usize) -> Expanded<Edge> {
    let mut shape = at.shape(input);
    if axis >= shape.len() {
        return refuse(format!("a tensor of rank {} has no axis {axis}", shape.len()));
    }
    shape.remove(axis);
    reshape(at, input, &shape)
}

/// A vector that lies along one axis of a tensor of that rank.
pub(crate) fn along(
    at: &mut Expander<'_>,
    input: Edge,
    rank: usize,
    axis: usize,
) -> Expanded<Edge> {
    let mut shape: Sizes = std::iter::repeat_n(1, rank).collect();
    shape[axis] = elements(&at.shape(input));
    reshape(at, input, &shape)
}

/// A function of each element.
pub(crate) fn each(at: &mut Expander<'_>, op: UnaryOp, input: Edge) -> Expanded<Edge> {
    at.apply(Op::Unary { op }, &[input])
}

/// A function of pairs of elements. Both sides repeat.
pub(crate) fn pair(at: &mut Expander<'_>, op: BinaryOp, a: Edge, b: Edge) -> Expanded<Edge> {
    at.apply(Op::Binary { op }, &[a, b])
}

/// A function of each element and one number.
pub(crate) fn with_number(
    at: &mut Expander<'_>,
    op: BinaryOp,
    input: Edge,
    number: impl Into<Scalar>,
) -> Expanded<Edge> {
    let dtype = at.dtype(input);
    let number = at.number(number, dtype)?;
    pair(at, op, input, number)
}

/// Elements combined along axes, which keep size 1.
pub(crate) fn reduce(
    at: &mut Expander<'_>,
    op: ReduceOp,
    input: Edge,
    axes: &[usize],
) -> Expanded<Edge> {
    at.apply(Op::Reduce { op, axes: axis_set(axes)? }, &[input])
}

/// One or the other tensor, by truth values.
pub(crate) fn choose(
    at: &mut Expander<'_>,
    condition: Edge,
    yes: Edge,
    no: Edge,
) -> Expanded<Edge> {
    at.apply(Op::Where, &[condition, yes, no])
}

/// A tensor as another element type.
pub(crate) fn cast(at: &mut Expander<'_>, input: Edge, dtype: DType) -> Expanded<Edge> {
    cast_with(at, input, dtype, true)
}

/// The same, with a rule for numbers that are beyond a type that is only stored.
pub(crate) fn cast_with(
    at: &mut Expander<'_>,
    input: Edge,
    dtype: DType,
    saturate: bool,
) -> Expanded<Edge> {
    let from = at.dtype(input);
    if from == dtype {
        return Ok(input);
    }
    let through = between(from, dtype);
    let input = match through {
        Some(through) => at.apply(Op::Copy { dtype: through, saturate }, &[input])?,
        None => input,
    };
    at.apply(Op::Copy { dtype, saturate }, &[input])
}

/// The type that numbers become on their way to another, where there is no direct one.
fn between(from: DType, to: DType) -> Option<DType> {
    let (stored, other) = if to.is_storage() { (to, from) } else { (from, to) };
    if !stored.is_storage() {
        return None;
    }
    let whole = |dtype: DType| matches!(dtype, DType::I4 | DType::U4);
    if whole(stored) && whole(other) {
        return Some(DType::I32);
    }
    let short = matches!(other, DType::F32 | DType::F16 | DType::BF16);
    let direct = short || (whole(stored) && other.is_int());
    (!direct).then_some(DType::F32)
}

/// The floating-point type that numbers of a type are computed with where single results are rounded too early, or
/// fractions matter.
pub(crate) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F64 | DType::I32 | DType::I64 | DType::U32 | DType::U64 => DType::F64,
        _ => DType::F32,
    }
}

/// A tensor of one value.
pub(crate) fn fill(
    at: &mut Expander<'_>,
    value: impl Into<Scalar>,
    dtype: DType,
    shape: &[usize],
) -> Expanded<Edge> {
    let spec = TensorSpec::new(dtype, shape)?;
    at.apply(Op::Fill { value: value.into(), spec }, &[])
}

/// The numbers from 0 on, along an axis.
pub(crate) fn iota(
    at: &mut Expander<'_>,
    dtype: DType,
    shape: &[usize],
    axis: usize,
) -> Expanded<Edge> {
    numbers(at, TensorSpec::new(dtype, shape)?, axis, Scalar::Int(0), Scalar::Int(1))
}

/// Numbers in a row, along an axis.
pub(crate) fn numbers(
    at: &mut Expander<'_>,
    spec: TensorSpec,
    axis: usize,
    start: Scalar,
    step: Scalar,
) -> Expanded<Edge> {
    let params = IotaParams { start, step, axis: axis as u8, spec };
    at.apply(Op::Iota { params: Box::new(params) }, &[])
}

/// A vector of numbers that the host knows, of a type.
pub(crate) fn vector(at: &mut Expander<'_>, values: &[f64], dtype: DType) -> Expanded<Edge> {
    let values: Vec<Scalar> = values.iter().map(|&value| Scalar::Float(value)).collect();
    Ok(at.constant(Array::of_scalars(dtype, &[values.len()], &values)?))
}

/// A size that a file gives as a number.
pub(crate) fn size(value: i64) -> Expanded<usize> {
    usize::try_from(value).or_else(|_| refuse(format!("size {value}")))
}

/// Sizes that a file gives as numbers.
pub(crate) fn sizes(values: &[i64]) -> Expanded<Sizes> {
    values.iter().map(|&value| size(value)).collect()
}

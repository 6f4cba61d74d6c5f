//! Operators on 8-bit integers that stand for numbers: the numbers are computed with, and become such integers again.

use millstream_core::{BinaryOp, DType, Op, ReduceOp, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander, Sizes};

use super::super::common::{
    Made, axes, axis, cast, choose, each, elements, one, pair, permute, reduce, refusal, refuse,
    reshape,
};
use super::{Quantized, made, quantized, standard};
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(super) const TABLE: Table = &[
    ("QLinearAdd", |node| two(node, BinaryOp::Add)),
    ("QLinearAveragePool", average_pool),
    ("QLinearConcat", concat),
    ("QLinearConv", conv),
    ("QLinearGlobalAveragePool", global_average_pool),
    ("QLinearLeakyRelu", |node| {
        let slope = node.attributes.float_or("alpha", 0.01)?;
        function(node, UnaryOp::LeakyRelu { slope })
    }),
    ("QLinearMul", |node| two(node, BinaryOp::Mul)),
    ("QLinearReduceMean", reduce_mean),
    ("QLinearSigmoid", |node| function(node, UnaryOp::Sigmoid)),
    ("QLinearSoftmax", softmax),
    ("QLinearWhere", choice),
];

/// Three inputs in a row: integers, their scale, and their zero point.
fn given(inputs: Inputs<'_>, first: usize) -> Expanded<Quantized> {
    let (values, scale) = (inputs.tensor(first)?, inputs.tensor(first + 1)?);
    Ok(Quantized { values, scale, zero: inputs.optional(first + 2)? })
}

/// Two inputs in a row: the scale and the zero point of a result.
fn result(
    at: &mut Expander<'_>,
    inputs: Inputs<'_>,
    first: usize,
    numbers: Edge,
    dtype: DType,
) -> Expanded<Edge> {
    quantized(at, numbers, inputs.tensor(first)?, inputs.optional(first + 1)?, dtype)
}

fn two(node: &mut NodeDef<'_, '_>, op: BinaryOp) -> Made {
    operator(node, move |at, inputs| {
        let (a, b) = (given(inputs, 0)?, given(inputs, 3)?);
        let dtype = at.dtype(a.values);
        let (a, b) = (a.numbers(at)?, b.numbers(at)?);
        let numbers = pair(at, op, a, b)?;
        one(result(at, inputs, 6, numbers, dtype)?)
    })
}

/// A function of the numbers, between scales.
fn of_numbers(
    node: &NodeDef<'_, '_>,
    compute: impl Fn(&mut Expander<'_>, Edge) -> Expanded<Edge> + Send + Sync + 'static,
) -> Made {
    operator(node, move |at, inputs| {
        let input = given(inputs, 0)?;
        let dtype = at.dtype(input.values);
        let numbers = input.numbers(at)?;
        let numbers = compute(at, numbers)?;
        one(result(at, inputs, 3, numbers, dtype)?)
    })
}

fn function(node: &mut NodeDef<'_, '_>, op: UnaryOp) -> Made {
    of_numbers(node, move |at, numbers| each(at, op, numbers))
}

fn softmax(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.int_or("axis", -1)?;
    // The older softmax is over all axes from one on.
    let old = node.attributes.int_or("opset", 13)? < 13;
    of_numbers(node, move |at, numbers| {
        let shape = at.shape(numbers);
        let along = axis(along, shape.len())?;
        if !old {
            return at.apply(Op::Softmax { axis: along as u8, log: false }, &[numbers]);
        }
        let flat = [elements(&shape[..along]), elements(&shape[along..])];
        let flat = reshape(at, numbers, &flat)?;
        let flat = at.apply(Op::Softmax { axis: 1, log: false }, &[flat])?;
        reshape(at, flat, &shape)
    })
}

fn reduce_mean(node: &mut NodeDef<'_, '_>) -> Made {
    let along = node.attributes.ints("axes")?.unwrap_or_default().to_vec();
    let keep = node.attributes.flag("keepdims", true)?;
    of_numbers(node, move |at, numbers| {
        let shape = at.shape(numbers);
        let along = match along.is_empty() {
            true => (0..shape.len()).collect(),
            false => axes(&along, shape.len())?,
        };
        let mean = reduce(at, ReduceOp::Mean, numbers, &along)?;
        if keep {
            return Ok(mean);
        }
        let left = (0..shape.len()).filter(|axis| !along.contains(axis)).map(|axis| shape[axis]);
        reshape(at, mean, &left.collect::<Sizes>())
    })
}

fn concat(node: &mut NodeDef<'_, '_>) -> Made {
    let Some(along) = node.attributes.int("axis")? else {
        return Err(refusal("axis is not given"));
    };
    operator(node, move |at, inputs| {
        let mut parts = Vec::new();
        let mut dtype = None;
        for first in (2..inputs.len()).step_by(3) {
            let part = given(inputs, first)?;
            dtype.get_or_insert(at.dtype(part.values));
            parts.push(part.numbers(at)?);
        }
        let (Some(&first), Some(dtype)) = (parts.first(), dtype) else {
            return refuse("there is nothing to join");
        };
        let along = axis(along, at.rank(first))?;
        let whole = at.concat(along, &parts)?;
        one(result(at, inputs, 0, whole, dtype)?)
    })
}

fn choice(node: &mut NodeDef<'_, '_>) -> Made {
    operator(node, |at, inputs| {
        let condition = inputs.tensor(0)?;
        let (yes, no) = (given(inputs, 1)?, given(inputs, 4)?);
        let dtype = at.dtype(yes.values);
        let (yes, no) = (yes.numbers(at)?, no.numbers(at)?);
        let chosen = choose(at, condition, yes, no)?;
        one(result(at, inputs, 7, chosen, dtype)?)
    })
}

/// Channels behind batches, and back again.
pub(super) fn channels_first(at: &mut Expander<'_>, input: Edge) -> Expanded<Edge> {
    let rank = at.rank(input);
    if rank < 2 {
        return refuse("channels are needed");
    }
    let order: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    permute(at, input, &order)
}

pub(super) fn channels_last(at: &mut Expander<'_>, input: Edge) -> Expanded<Edge> {
    let rank = at.rank(input);
    let order: Vec<usize> = std::iter::once(0).chain(2..rank).chain([1]).collect();
    permute(at, input, &order)
}

fn average_pool(node: &mut NodeDef<'_, '_>) -> Made {
    let last = node.attributes.flag("channels_last", false)?;
    let pool = standard(node, "AveragePool")?;
    of_numbers(node, move |at, numbers| {
        if !last {
            return made(&*pool, at, &[Some(numbers)]);
        }
        let numbers = channels_first(at, numbers)?;
        let pooled = made(&*pool, at, &[Some(numbers)])?;
        channels_last(at, pooled)
    })
}

fn global_average_pool(node: &mut NodeDef<'_, '_>) -> Made {
    let last = node.attributes.flag("channels_last", false)?;
    of_numbers(node, move |at, numbers| {
        let rank = at.rank(numbers);
        if rank < 3 {
            return refuse("there are no spatial axes");
        }
        let places: Vec<usize> = if last { (1..rank - 1).collect() } else { (2..rank).collect() };
        reduce(at, ReduceOp::Mean, numbers, &places)
    })
}

fn conv(node: &mut NodeDef<'_, '_>) -> Made {
    let last = node.attributes.flag("channels_last", false)?;
    let conv = standard(node, "QLinearConv")?;
    operator(node, move |at, inputs| {
        let mut given = (0..9).map(|index| inputs.optional(index)).collect::<Expanded<Vec<_>>>()?;
        if last && let Some(input) = given[0] {
            given[0] = Some(channels_first(at, input)?);
        }
        let mut result = made(&*conv, at, &given)?;
        if last {
            result = channels_last(at, result)?;
        }
        let dtype = given[7].map_or(at.dtype(result), |zero| at.dtype(zero));
        one(cast(at, result, dtype)?)
    })
}

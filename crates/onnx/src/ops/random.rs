//! Random numbers.
//!
//! A model that is called twice gives the same numbers twice: those of a node follow from its seed, or, where it has none, from its
//! name. So the answers of many threads are those of one.

use std::hash::{DefaultHasher, Hash, Hasher};

use millstream_core::{BinaryOp, DType, Distribution, Op, ReduceOp, TensorSpec, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander, Sizes};

use super::common::{
    Made, broadcast, cast, choose, each, fill, many, one, pair, reduce, refusal, refuse, size,
    sizes, squeeze, unsqueeze, wide, with_number,
};
use crate::Result;
use crate::dtypes::dtype;
use crate::inputs::Inputs;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("Bernoulli", bernoulli),
    ("Dropout", dropout),
    ("Multinomial", multinomial),
    ("RandomNormal", |node| {
        let distribution = normal(node)?;
        of_shape(node, distribution)
    }),
    ("RandomNormalLike", |node| {
        let distribution = normal(node)?;
        like(node, distribution)
    }),
    ("RandomUniform", |node| {
        let distribution = uniform(node)?;
        of_shape(node, distribution)
    }),
    ("RandomUniformLike", |node| {
        let distribution = uniform(node)?;
        like(node, distribution)
    }),
];

/// The seed that a node gives, or one that no other node has.
fn seed(node: &NodeDef<'_, '_>) -> Result<u64> {
    let given = node.attributes.raw("seed").map(|_| match node.version {
        _ if node.kind() == "Dropout" => node.attributes.int_or("seed", 0).map(|seed| seed as u64),
        _ => node.attributes.float_or("seed", 0.0).map(|seed| u64::from(seed.to_bits())),
    });
    if let Some(given) = given {
        return given;
    }
    let mut hasher = DefaultHasher::new();
    (&node.node.name, &node.node.output).hash(&mut hasher);
    Ok(hasher.finish())
}

fn normal(node: &NodeDef<'_, '_>) -> Result<Distribution> {
    let (mean, deviation) =
        (node.attributes.float_or("mean", 0.0)?, node.attributes.float_or("scale", 1.0)?);
    Ok(Distribution::Normal { mean, deviation })
}

fn uniform(node: &NodeDef<'_, '_>) -> Result<Distribution> {
    let (low, high) =
        (node.attributes.float_or("low", 0.0)?, node.attributes.float_or("high", 1.0)?);
    Ok(Distribution::Uniform { low, high })
}

/// The element type that a node asks for.
fn wanted_type(node: &NodeDef<'_, '_>) -> Result<Option<DType>> {
    let number = node.attributes.int("dtype")?;
    number.map(|number| dtype(number as i32).map_err(refusal)).transpose()
}

fn numbers(
    at: &mut Expander<'_>,
    distribution: Distribution,
    seed: u64,
    dtype: DType,
    shape: &[usize],
) -> Expanded<Edge> {
    let spec = TensorSpec::new(dtype, shape)?;
    at.apply(Op::Random { distribution, seed, offset: 0, spec }, &[])
}

/// Numbers from 0 to 1.
fn parts(at: &mut Expander<'_>, seed: u64, dtype: DType, shape: &[usize]) -> Expanded<Edge> {
    numbers(at, Distribution::Uniform { low: 0.0, high: 1.0 }, seed, dtype, shape)
}

fn of_shape(node: &mut NodeDef<'_, '_>, distribution: Distribution) -> Made {
    let dtype = wanted_type(node)?.unwrap_or(DType::F32);
    let shape = node.attributes.ints("shape")?.unwrap_or_default().to_vec();
    let seed = seed(node)?;
    operator(node, move |at, _| {
        let shape = sizes(&shape)?;
        one(numbers(at, distribution, seed, dtype, &shape)?)
    })
}

fn like(node: &mut NodeDef<'_, '_>, distribution: Distribution) -> Made {
    let wanted = wanted_type(node)?;
    let seed = seed(node)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let own = at.dtype(input);
        let dtype = wanted.unwrap_or(if own.is_float() { own } else { DType::F32 });
        let shape = at.shape(input);
        one(numbers(at, distribution, seed, dtype, &shape)?)
    })
}

/// 1 with the probability that each element is.
fn bernoulli(node: &mut NodeDef<'_, '_>) -> Made {
    let wanted = wanted_type(node)?;
    let seed = seed(node)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let (own, shape) = (at.dtype(input), at.shape(input));
        let draws = parts(at, seed, own, &shape)?;
        let happens = pair(at, BinaryOp::Less, draws, input)?;
        one(cast(at, happens, wanted.unwrap_or(own))?)
    })
}

/// The class whose logarithmic probability and a number of Gumbel's distribution have the largest sum.
fn multinomial(node: &mut NodeDef<'_, '_>) -> Made {
    let dtype = wanted_type(node)?.unwrap_or(DType::I32);
    let samples = node.attributes.int_or("sample_size", 1)?;
    let seed = seed(node)?;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let [batch, classes] = at.shape(input)[..] else {
            return refuse("a matrix of probabilities is needed");
        };
        let computed = wide(at.dtype(input));
        let input = cast(at, input, computed)?;
        let shape = [batch, size(samples)?, classes];
        let draws = parts(at, seed, computed, &shape)?;
        let inner = each(at, UnaryOp::Log, draws)?;
        let inner = each(at, UnaryOp::Neg, inner)?;
        let outer = each(at, UnaryOp::Log, inner)?;
        let likely = unsqueeze(at, input, 1)?;
        let sum = pair(at, BinaryOp::Sub, likely, outer)?;
        let chosen = reduce(at, ReduceOp::ArgMax, sum, &[2])?;
        let chosen = squeeze(at, chosen, 2)?;
        one(cast(at, chosen, dtype)?)
    })
}

/// Whether elements are dropped, and how many of them.
fn training(
    at: &Expander<'_>,
    inputs: Inputs<'_>,
    ratio: Option<f32>,
    by_input: bool,
) -> Expanded<Option<f64>> {
    if !by_input {
        return Ok(None);
    }
    let training = match inputs.optional(2)? {
        Some(edge) => at.scalar(edge)?.as_bool(),
        None => false,
    };
    if !training {
        return Ok(None);
    }
    match (inputs.optional(1)?, ratio) {
        (Some(edge), _) => Ok(Some(at.scalar(edge)?.as_f64())),
        (None, Some(ratio)) => Ok(Some(ratio.into())),
        (None, None) => Ok(Some(0.5)),
    }
}

/// Elements are dropped only in training, which newer operator sets can ask for.
fn dropout(node: &mut NodeDef<'_, '_>) -> Made {
    let by_input = node.version >= 12;
    let ratio = node.attributes.float("ratio")?;
    let seed = seed(node)?;
    let bool_mask = node.version >= 10;
    node.attributes.ignore(&["consumed_inputs", "is_test"]);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let (dtype, shape): (DType, Sizes) = (at.dtype(input), at.shape(input));
        let mask_type = if bool_mask { DType::Bool } else { dtype };
        let ratio = training(at, inputs, ratio, by_input)?;
        let Some(ratio) = ratio.filter(|&ratio| ratio > 0.0) else {
            let kept = fill(at, true, mask_type, &[])?;
            return many([input, broadcast(at, kept, &shape)?]);
        };
        let draws = parts(at, seed, DType::F32, &shape)?;
        let kept = with_number(at, BinaryOp::GreaterEqual, draws, ratio)?;
        let scaled = with_number(at, BinaryOp::Mul, input, 1.0 / (1.0 - ratio))?;
        let zero = fill(at, 0i64, dtype, &[])?;
        let result = choose(at, kept, scaled, zero)?;
        many([result, cast(at, kept, mask_type)?])
    })
}

//! Normalization.

use millstream_core::{BinaryOp, Op, ReduceOp, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander, Value};

use super::common::{
    Made, axes, axis, broadcast, cast, each, one, pair, reduce, refuse, reshape, unsqueeze, wide,
    with_number,
};
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("GroupNormalization", group_norm),
    ("InstanceNormalization", instance_norm),
    ("LayerNormalization", layer_norm),
    ("MeanVarianceNormalization", mean_variance_norm),
    ("RMSNormalization", rms_norm),
    ("SimplifiedLayerNormalization", rms_norm),
];

/// How a weight or bias is joined with what was normalized.
fn is_within(at: &Expander<'_>, weight: Option<Edge>, axes: usize) -> bool {
    weight.is_none_or(|weight| at.rank(weight) <= axes)
}

fn layer_norm(node: &mut NodeDef<'_, '_>) -> Made {
    let first = node.attributes.int_or("axis", -1)?;
    let epsilon = node.attributes.float_or("epsilon", 1e-5)?;
    node.attributes.ignore(&["stash_type"]);
    operator(node, move |at, inputs| {
        let (input, weight, bias) = (inputs.tensor(0)?, inputs.optional(1)?, inputs.optional(2)?);
        let rank = at.rank(input);
        let axes = rank - axis(first, rank)?;
        let moments = at.wants(1) || at.wants(2);
        // Weights that differ along further axes are multiplied by themselves.
        let within = is_within(at, weight, axes) && is_within(at, bias, axes);
        let (weight_inside, bias_inside) = if within { (weight, bias) } else { (None, None) };
        let op = Op::LayerNorm {
            axes: axes as u8,
            epsilon,
            weight: weight_inside.is_some(),
            bias: bias_inside.is_some(),
            moments,
        };
        let given: Vec<Edge> =
            [Some(input), weight_inside, bias_inside].into_iter().flatten().collect();
        let mut made = at.apply_all(op, &given)?;
        if !within {
            made[0] = scaled(at, made[0], weight, bias)?;
        }
        Ok(made.into_iter().map(Value::Tensor).collect())
    })
}

fn scaled(
    at: &mut Expander<'_>,
    input: Edge,
    weight: Option<Edge>,
    bias: Option<Edge>,
) -> Expanded<Edge> {
    let mut result = input;
    if let Some(weight) = weight {
        result = pair(at, BinaryOp::Mul, result, weight)?;
    }
    if let Some(bias) = bias {
        result = pair(at, BinaryOp::Add, result, bias)?;
    }
    Ok(result)
}

/// Computed in 32 bits where the input has 16, and rounded before it is multiplied with the scale.
fn rms_norm(node: &mut NodeDef<'_, '_>) -> Made {
    let first = node.attributes.int_or("axis", -1)?;
    let epsilon = node.attributes.float_or("epsilon", 1e-5)?;
    node.attributes.ignore(&["stash_type"]);
    operator(node, move |at, inputs| {
        let (input, weight) = (inputs.tensor(0)?, inputs.optional(1)?);
        let rank = at.rank(input);
        let axes = rank - axis(first, rank)?;
        let same = weight.is_none_or(|weight| at.dtype(weight) == at.dtype(input));
        let inside = weight.filter(|_| same && is_within(at, weight, axes));
        let op = Op::RmsNorm { axes: axes as u8, epsilon, weight: inside.is_some() };
        let given: Vec<Edge> = [Some(input), inside].into_iter().flatten().collect();
        let result = at.apply(op, &given)?;
        let (None, Some(weight)) = (inside, weight) else { return one(result) };
        // The result has the type of the scale.
        let dtype = at.dtype(weight);
        let result = cast(at, result, dtype)?;
        one(pair(at, BinaryOp::Mul, result, weight)?)
    })
}

fn instance_norm(node: &mut NodeDef<'_, '_>) -> Made {
    let epsilon = node.attributes.float_or("epsilon", 1e-5)?;
    node.attributes.ignore(&["consumed_inputs"]);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let &[_, channels, ..] = &at.shape(input)[..] else {
            return refuse("batch and channels are needed");
        };
        let op = Op::GroupNorm { groups: channels as u32, epsilon, weight: true, bias: true };
        one(at.apply(op, &[input, inputs.tensor(1)?, inputs.tensor(2)?])?)
    })
}

/// Up to operator set 20 there is one scale and bias for each group.
fn group_norm(node: &mut NodeDef<'_, '_>) -> Made {
    let epsilon = node.attributes.float_or("epsilon", 1e-5)?;
    let groups = node.attributes.int_or("num_groups", 1)?;
    node.attributes.ignore(&["stash_type"]);
    let per_group = node.version < 21;
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let &[_, channels, ..] = &at.shape(input)[..] else {
            return refuse("batch and channels are needed");
        };
        let Ok(groups) = u32::try_from(groups) else { return refuse("a number of groups") };
        let mut given = vec![input];
        for index in 1..3 {
            let mut one = inputs.tensor(index)?;
            let count = groups as usize;
            if per_group && at.shape(one)[..] == [count] && count != channels && count > 0 {
                let upright = unsqueeze(at, one, 1)?;
                let wide = broadcast(at, upright, &[count, channels / count])?;
                one = reshape(at, wide, &[channels])?;
            }
            given.push(one);
        }
        let op = Op::GroupNorm { groups, epsilon, weight: true, bias: true };
        one(at.apply(op, &given)?)
    })
}

fn mean_variance_norm(node: &mut NodeDef<'_, '_>) -> Made {
    let given = node.attributes.ints("axes")?.map_or_else(|| vec![0, 2, 3], <[i64]>::to_vec);
    operator(node, move |at, inputs| {
        let input = inputs.tensor(0)?;
        let dtype = at.dtype(input);
        let over = axes(&given, at.rank(input))?;
        let input = cast(at, input, wide(dtype))?;
        let (mean, variance) = moments(at, input, &over)?;
        let deviation = each(at, UnaryOp::Sqrt, variance)?;
        let deviation = with_number(at, BinaryOp::Add, deviation, 1e-9)?;
        let centered = pair(at, BinaryOp::Sub, input, mean)?;
        let result = pair(at, BinaryOp::Div, centered, deviation)?;
        one(cast(at, result, dtype)?)
    })
}

/// Mean and variance over axes, which keep size 1.
pub(crate) fn moments(
    at: &mut Expander<'_>,
    input: Edge,
    over: &[usize],
) -> Expanded<(Edge, Edge)> {
    let mean = reduce(at, ReduceOp::Mean, input, over)?;
    let centered = pair(at, BinaryOp::Sub, input, mean)?;
    let squares = each(at, UnaryOp::Square, centered)?;
    Ok((mean, reduce(at, ReduceOp::Mean, squares, over)?))
}

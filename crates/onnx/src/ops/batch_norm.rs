//! Normalization by statistics of batches.

use millstream_core::{BinaryOp, DType, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{Made, along, cast, each, many, one, pair, refuse, reshape, with_number};
use super::norm::moments;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[("BatchNormalization", batch_norm)];

fn batch_norm(node: &mut NodeDef<'_, '_>) -> Made {
    let epsilon = node.attributes.float_or("epsilon", 1e-5)?;
    let momentum = node.attributes.float_or("momentum", 0.9)?;
    // Before operator set 9, parameters may differ between places.
    let spatial = node.attributes.flag("spatial", true)?;
    node.attributes.ignore(&["consumed_inputs"]);
    // Before operator set 14, a node with outputs for statistics computes them, and uses them: so are models that were exported
    // as they are trained.
    let training = match node.version {
        ..7 => !node.attributes.flag("is_test", false)? && node.outputs() > 1,
        7..14 => node.outputs() > 1,
        _ => node.attributes.flag("training_mode", false)?,
    };
    operator(node, move |at, inputs| {
        let tensors = inputs.tensors()?;
        let [input, scale, bias, mean, variance] = tensors[..] else {
            return refuse("five inputs are needed");
        };
        let (shape, dtype) = (at.shape(input), at.dtype(input));
        let rank = shape.len();
        let placed = |at: &mut Expander<'_>, edge: Edge| -> Expanded<Edge> {
            let edge = cast(at, edge, dtype)?;
            if spatial && rank > 1 { along(at, edge, rank, 1) } else { Ok(edge) }
        };
        if !training {
            let result = normalized(at, input, [scale, bias, mean, variance], epsilon, placed)?;
            return one(result);
        }
        let over: Vec<usize> =
            (0..rank).filter(|&axis| axis == 0 || spatial && axis != 1).collect();
        let (batch_mean, batch_variance) = moments(at, input, &over)?;
        let flat = |at: &mut Expander<'_>, edge: Edge, like: Edge| -> Expanded<Edge> {
            let shape = at.shape(like);
            let edge = reshape(at, edge, &shape)?;
            let dtype = at.dtype(like);
            cast(at, edge, dtype)
        };
        let batch_mean = flat(at, batch_mean, mean)?;
        let batch_variance = flat(at, batch_variance, variance)?;
        let parameters = [scale, bias, batch_mean, batch_variance];
        let result = normalized(at, input, parameters, epsilon, placed)?;
        let mut running = Vec::new();
        for (old, new) in [(mean, batch_mean), (variance, batch_variance)] {
            let old = with_number(at, BinaryOp::Mul, old, momentum)?;
            let new = with_number(at, BinaryOp::Mul, new, 1.0 - f64::from(momentum))?;
            running.push(pair(at, BinaryOp::Add, old, new)?);
        }
        // What older nodes save of the batch is its mean, and what it is scaled with.
        let saved = with_number(at, BinaryOp::Add, batch_variance, epsilon)?;
        let saved = each(at, UnaryOp::Sqrt, saved)?;
        let saved = each(at, UnaryOp::Reciprocal, saved)?;
        many([result, running[0], running[1], batch_mean, saved])
    })
}

/// `scale · (x - mean) / sqrt(variance + epsilon) + bias` as a factor and a sum, which mostly are constants.
fn normalized(
    at: &mut Expander<'_>,
    input: Edge,
    [scale, bias, mean, variance]: [Edge; 4],
    epsilon: f32,
    placed: impl Fn(&mut Expander<'_>, Edge) -> Expanded<Edge>,
) -> Expanded<Edge> {
    let computed = match at.dtype(variance) {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let [scale, bias, mean, variance] = [scale, bias, mean, variance]
        .map(|edge| cast(at, edge, computed))
        .into_iter()
        .collect::<Expanded<Vec<Edge>>>()?[..]
    else {
        return refuse("five inputs are needed");
    };
    let variance = with_number(at, BinaryOp::Add, variance, epsilon)?;
    let deviation = each(at, UnaryOp::Sqrt, variance)?;
    let factor = pair(at, BinaryOp::Div, scale, deviation)?;
    let moved = pair(at, BinaryOp::Mul, mean, factor)?;
    let offset = pair(at, BinaryOp::Sub, bias, moved)?;
    let factor = placed(at, factor)?;
    let offset = placed(at, offset)?;
    let product = pair(at, BinaryOp::Mul, input, factor)?;
    pair(at, BinaryOp::Add, product, offset)
}

#[cfg(test)]
mod tests;

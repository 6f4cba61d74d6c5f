//! Losses.

use millstream_core::{BinaryOp, Op, ReduceOp, UnaryOp};
use millstream_graph::{Edge, Expanded, Expander};

use super::common::{
    Made, choose, each, fill, many, one, pair, reduce, refuse, reshape, squeeze, unknown,
    unsqueeze, with_number,
};
use crate::Result;
use crate::node::{NodeDef, operator};
use crate::registry::Table;

pub(crate) const TABLE: Table = &[
    ("NegativeLogLikelihoodLoss", negative_log_likelihood),
    ("SoftmaxCrossEntropyLoss", softmax_cross_entropy),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    None,
    Sum,
    Mean,
}

#[derive(Clone, Copy, Debug)]
struct Loss {
    reduction: Reduction,
    ignored: Option<i64>,
}

impl Loss {
    fn of(node: &NodeDef<'_, '_>) -> Result<Self> {
        let reduction = match node.attributes.string_or("reduction", "mean")? {
            "none" => Reduction::None,
            "sum" => Reduction::Sum,
            "mean" => Reduction::Mean,
            other => return unknown("reduction", other),
        };
        Ok(Self { reduction, ignored: node.attributes.int("ignore_index")? })
    }

    /// The loss of logarithms of probabilities, `[batch, classes, …]`, for classes `[batch, …]`.
    fn expand(
        &self,
        at: &mut Expander<'_>,
        input: Edge,
        target: Edge,
        weight: Option<Edge>,
    ) -> Expanded<Edge> {
        if at.rank(input) < 2 {
            return refuse("batch and classes are needed");
        }
        let (given, mut wanted) = (at.shape(target), at.shape(input));
        wanted.remove(1);
        if given != wanted {
            return refuse(format!("classes of shape {given:?}, where {wanted:?} is needed"));
        }
        let dtype = at.dtype(input);
        let ignored = match self.ignored {
            Some(index) => Some(with_number(at, BinaryOp::Equal, target, index)?),
            None => None,
        };
        let class = match ignored {
            Some(ignored) => {
                let index = at.dtype(target);
                let zero = fill(at, 0i64, index, &[])?;
                choose(at, ignored, zero, target)?
            }
            None => target,
        };
        let places = unsqueeze(at, class, 1)?;
        let found = at.apply(Op::GatherElements { axis: 1 }, &[input, places])?;
        let found = squeeze(at, found, 1)?;
        let mut loss = each(at, UnaryOp::Neg, found)?;
        let mut weights = match weight {
            Some(weight) => Some(at.apply(Op::Gather { axis: 0 }, &[weight, class])?),
            None => None,
        };
        if let Some(ignored) = ignored {
            let zero = fill(at, 0.0, dtype, &[])?;
            let counted = match weights {
                Some(weights) => weights,
                None => fill(at, 1.0, dtype, &[])?,
            };
            weights = Some(choose(at, ignored, zero, counted)?);
            // What is ignored may be infinite.
            loss = choose(at, ignored, zero, loss)?;
        }
        if let Some(weights) = weights {
            loss = pair(at, BinaryOp::Mul, loss, weights)?;
        }
        self.reduced(at, loss, weights)
    }

    fn reduced(&self, at: &mut Expander<'_>, loss: Edge, weights: Option<Edge>) -> Expanded<Edge> {
        let all: Vec<usize> = (0..at.rank(loss)).collect();
        let total = |at: &mut Expander<'_>, op: ReduceOp, edge: Edge| -> Expanded<Edge> {
            let reduced = reduce(at, op, edge, &all)?;
            reshape(at, reduced, &[])
        };
        match (self.reduction, weights) {
            (Reduction::None, _) => Ok(loss),
            (Reduction::Sum, _) => total(at, ReduceOp::Sum, loss),
            (Reduction::Mean, None) => total(at, ReduceOp::Mean, loss),
            (Reduction::Mean, Some(weights)) => {
                let sum = total(at, ReduceOp::Sum, loss)?;
                let divisor = total(at, ReduceOp::Sum, weights)?;
                pair(at, BinaryOp::Div, sum, divisor)
            }
        }
    }
}

fn negative_log_likelihood(node: &mut NodeDef<'_, '_>) -> Made {
    let loss = Loss::of(node)?;
    operator(node, move |at, inputs| {
        let (input, target, weight) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional(2)?);
        one(loss.expand(at, input, target, weight)?)
    })
}

fn softmax_cross_entropy(node: &mut NodeDef<'_, '_>) -> Made {
    let loss = Loss::of(node)?;
    operator(node, move |at, inputs| {
        let (input, target, weight) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional(2)?);
        let logarithms = at.apply(Op::Softmax { axis: 1, log: true }, &[input])?;
        many([loss.expand(at, logarithms, target, weight)?, logarithms])
    })
}

#[cfg(test)]
mod tests;

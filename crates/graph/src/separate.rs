//! Whether calls can be joined: the proof that a model computes each call of a batch as it computes that call alone.
//!
//! Two graphs of one model are compared as they are run: that of a single call, and that of a batch of `n` calls, whose inputs lie
//! one behind the other along an axis. The graph of the batch is gone through once. Each of its values either is the same for all
//! calls, or is cut in `n` equal parts along one axis, part `i` computed from part `i` of the inputs alone
//! ([`signature`]). Beside it a graph is written that computes one part: the same nodes with that axis cut. If this graph is
//! the graph of the single call, node for node and constant for constant, then part `i` of the batch is the answer of call `i`.
//!
//! Where a call computes one scale for a whole tensor, a batch has to compute one for each call: the graph of the batch is
//! [rewritten](segmented) for that before it is compared, and is run as it was compared.
//!
//! So a number that follows from the size of the batch, such as the divisor of a mean over it, is noticed: it is another one in
//! the graph of the single call.

mod counted;
mod cut;
mod equal;
mod number;
mod segment;
mod signature;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::constant::Folder;
use crate::graph::{Edge, Graph, Node};
use cut::Cut;
pub(crate) use equal::same_constant;
pub(crate) use segment::segmented;

/// How a value of a batch belongs to its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// All calls have the same.
    Whole,
    /// Each call has an equal part of this axis, in their order.
    Parts(usize),
}

/// How a batch is made of calls.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    pub calls: usize,
    /// How the inputs are shared that a call brings, in their order.
    pub inputs: Vec<Share>,
    /// Whether a batch of 1 that the model fixes in shapes becomes that of all calls.
    pub grows: bool,
}

/// What keeps calls from being joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// The node, if it is one.
    pub node: Option<String>,
    pub reason: String,
}

impl Obstacle {
    pub fn of(reason: impl Into<String>) -> Self {
        Self { node: None, reason: reason.into() }
    }

    fn at(node: &Node, reason: String) -> Self {
        let name = node.layer.map(|layer| layer.as_str().to_owned());
        Self { node: Some(name.unwrap_or_else(|| node.op.name().to_owned())), reason }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "node {node:?}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

/// Proves that `batch` computes for each of `calls` calls what `single` computes for one. `inputs` says how the inputs of both are
/// shared. Gives the shares of the outputs.
///
/// # Errors
///
/// What keeps the calls from being joined.
pub(crate) fn prove(
    single: &Graph,
    batch: &Graph,
    calls: usize,
    inputs: &[Share],
    folder: &Folder,
) -> Result<Vec<Share>, Obstacle> {
    let mut cut = Cut::new(batch, calls, inputs, folder)?;
    for node in batch.nodes() {
        cut.node(node)?;
    }
    let shares: Vec<Share> = batch.outputs().iter().map(|&edge| cut.share(edge)).collect();
    if batch.outputs().iter().any(|&edge| cut.is_number(edge)) {
        return Err(Obstacle::of("an output is a number that each call has of its own"));
    }
    let outputs: Vec<Edge> =
        batch.outputs().iter().map(|&edge| cut.part(edge)).collect::<Result<_, _>>()?;
    equal::check((cut.graph(), &outputs), (single, single.outputs()), folder)?;
    Ok(shares)
}

//! Elementwise operations that follow each other are computed in one pass over memory.

use std::collections::HashMap;

use millstream_core::{Chain, ChainStep, ChainTerm, MAX_CHAIN_INPUTS, MAX_CHAIN_STEPS, Op};
use smallvec::SmallVec;

use super::rewrite::{Rewrite, rewrite};
use crate::Result;
use crate::constant::Folder;
use crate::graph::{Edge, Graph, Node, NodeOp};

pub(super) fn run(graph: &Graph, folder: &Folder) -> Result<Graph> {
    rewrite(graph, folder, |rewrite, index, node| {
        // A node that a later chain takes in is written nevertheless: nobody reads it, so it goes.
        let Some(found) = collect(rewrite, index, node) else { return Ok(None) };
        let inputs = found.inputs;
        let dtypes: SmallVec<[_; 8]> = inputs.iter().map(|&edge| rewrite.old.dtype(edge)).collect();
        let chain = Chain::new(&dtypes, &found.steps)?;
        rewrite.apply(Op::Chain { chain }, &inputs)
    })
}

struct Found {
    inputs: SmallVec<[Edge; 8]>,
    steps: Vec<ChainStep>,
}

/// The step that an operation is, with terms to be filled in.
fn step(op: &Op, terms: &[ChainTerm]) -> Option<ChainStep> {
    Some(match (op, terms) {
        (Op::Unary { op }, &[a]) => ChainStep::unary(*op, a),
        (Op::Binary { op }, &[a, b]) => ChainStep::binary(*op, a, b),
        (Op::Where, &[condition, a, b]) => ChainStep::where_(condition, a, b),
        (Op::Clip { min, max }, &[a]) => ChainStep::clip(*min, *max, a),
        (Op::Copy { dtype, saturate: true }, &[a]) if !dtype.is_storage() => {
            ChainStep::cast(*dtype, a)
        }
        _ => return None,
    })
}

fn is_step(op: &NodeOp, rewrite: &Rewrite<'_>, node: &Node) -> bool {
    let NodeOp::Op(op) = op else { return false };
    let computed = |edge: &Edge| !rewrite.old.dtype(*edge).is_storage();
    step(op, &[ChainTerm::Input(0); 3][..node.inputs.len().min(3)]).is_some()
        && node.inputs.iter().chain(&node.outputs).all(computed)
}

/// The longest chain that ends at a node, if it has more than one step and no later one takes it in.
fn collect(rewrite: &Rewrite<'_>, index: usize, node: &Node) -> Option<Found> {
    if !is_step(&node.op, rewrite, node) {
        return None;
    }
    let shape = rewrite.old.shape(node.outputs[0]);
    // The nodes of the chain, found from the end. A node joins if what it makes is read by the chain alone.
    let mut members: Vec<usize> = vec![index];
    let mut at = 0;
    while at < members.len() {
        let inputs = rewrite.old.nodes()[members[at]].inputs.clone();
        for edge in inputs {
            let Some((producer, made)) = rewrite.old.producer(edge) else { continue };
            let joins = !members.contains(&producer)
                && members.len() < MAX_CHAIN_STEPS
                && is_step(&made.op, rewrite, made)
                && rewrite.old.shape(edge) == shape
                && rewrite.uses_within(edge, &members);
            if joins {
                members.push(producer);
                if inputs_of(rewrite, &members).len() > MAX_CHAIN_INPUTS {
                    members.pop();
                }
            }
        }
        at += 1;
    }
    if members.len() < 2 {
        return None;
    }
    members.sort_unstable();
    let inputs = inputs_of(rewrite, &members);
    let mut places: HashMap<Edge, ChainTerm> =
        inputs.iter().enumerate().map(|(at, &edge)| (edge, ChainTerm::Input(at as u8))).collect();
    let mut steps = Vec::with_capacity(members.len());
    for &member in &members {
        let node = &rewrite.old.nodes()[member];
        let NodeOp::Op(op) = &node.op else { return None };
        let terms: SmallVec<[ChainTerm; 3]> =
            node.inputs.iter().map(|edge| places.get(edge).copied()).collect::<Option<_>>()?;
        places.insert(node.outputs[0], ChainTerm::Step(steps.len() as u8));
        steps.push(step(op, &terms)?);
    }
    Some(Found { inputs, steps })
}

/// What a set of nodes reads and does not make.
fn inputs_of(rewrite: &Rewrite<'_>, members: &[usize]) -> SmallVec<[Edge; 8]> {
    let mut inputs: SmallVec<[Edge; 8]> = SmallVec::new();
    for &member in members {
        for &edge in &rewrite.old.nodes()[member].inputs {
            let made = rewrite.old.producer(edge).is_some_and(|(node, _)| members.contains(&node));
            if !made && !inputs.contains(&edge) {
                inputs.push(edge);
            }
        }
    }
    inputs
}

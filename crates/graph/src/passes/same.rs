//! Nodes that compute the same are computed once.

use std::collections::HashMap;

use millstream_core::Op;
use smallvec::SmallVec;

use super::rewrite::rewrite;
use crate::Result;
use crate::constant::Folder;
use crate::graph::{Edge, Graph, NodeOp};

/// What a node reads: a constant by its number, so that two edges of one constant are the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Read {
    Edge(Edge),
    Constant(u64),
}

type Key = (NodeOp, SmallVec<[Read; 4]>);

// Bytes of the host, which an upload has, are compared by what they are, and nobody changes them.
#[allow(clippy::mutable_key_type)]
pub(super) fn run(graph: &Graph, folder: &Folder) -> Result<Graph> {
    let mut known: HashMap<Key, SmallVec<[Edge; 1]>> = HashMap::new();
    rewrite(graph, folder, |rewrite, _, node| {
        if matches!(node.op, NodeOp::Op(Op::Random { .. } | Op::Timestamp)) {
            return Ok(None);
        }
        let inputs: SmallVec<[Edge; 4]> =
            node.inputs.iter().map(|&input| rewrite.new_edge(input)).collect();
        let read = node.inputs.iter().zip(&inputs).map(|(&old, &new)| match graph.constant(old) {
            Some(constant) => Read::Constant(constant.number()),
            None => Read::Edge(new),
        });
        let key = (node.op.clone(), read.collect());
        if let Some(made) = known.get(&key) {
            return Ok(Some(made.clone()));
        }
        let made = rewrite.builder().add(node.op.clone(), &inputs)?;
        known.insert(key, made.clone());
        Ok(Some(made))
    })
}

//! Nodes in an order in which they can be computed.
//!
//! Files should have them so, but some do not, and other runtimes run those.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::proto::{GraphProto, NodeProto};
use crate::{Error, Result};

/// The names that a node reads: its inputs, and what its bodies read from outside.
pub(crate) fn reads<'a>(node: &'a NodeProto, found: &mut Vec<&'a str>) {
    found.extend(node.input.iter().map(String::as_str).filter(|name| !name.is_empty()));
    for attribute in &node.attribute {
        for graph in attribute.g.iter().chain(&attribute.graphs) {
            free_names(graph, found);
        }
    }
}

/// The names that a graph reads and does not make.
fn free_names<'a>(graph: &'a GraphProto, found: &mut Vec<&'a str>) {
    let mut made: HashSet<&str> = HashSet::new();
    made.extend(graph.input.iter().filter_map(|value| value.name.as_deref()));
    made.extend(graph.initializer.iter().filter_map(|value| value.name.as_deref()));
    let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
    made.extend(sparse.filter_map(|value| value.name.as_deref()));
    made.extend(graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str)));
    let mut read = Vec::new();
    graph.node.iter().for_each(|node| reads(node, &mut read));
    read.extend(graph.output.iter().filter_map(|value| value.name.as_deref()));
    found.extend(read.into_iter().filter(|name| !made.contains(name)));
}

/// The numbers of the nodes that outputs depend on, in an order in which they can be computed. The order of the file is kept
/// where it is one.
///
/// # Errors
///
/// A name that two nodes make, or nodes that need each other.
pub(crate) fn sorted(nodes: &[NodeProto], outputs: &[&str]) -> Result<Vec<usize>> {
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if makers.insert(name, index).is_some() {
                return Err(Error::Format {
                    path: "graph".into(),
                    reason: format!("two nodes make {name:?}"),
                });
            }
        }
    }
    let mut needs: Vec<Vec<usize>> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut read = Vec::new();
        reads(node, &mut read);
        let mut needed: Vec<usize> =
            read.iter().filter_map(|name| makers.get(name).copied()).collect();
        needed.sort_unstable();
        needed.dedup();
        needs.push(needed);
    }
    // What outputs depend on.
    let mut wanted = vec![false; nodes.len()];
    let mut open: VecDeque<usize> =
        outputs.iter().filter_map(|name| makers.get(name).copied()).collect();
    while let Some(node) = open.pop_front() {
        if !std::mem::replace(&mut wanted[node], true) {
            open.extend(&needs[node]);
        }
    }
    // Depth first without recursion: a node comes when all that it needs has come.
    let mut order = Vec::new();
    let mut state = vec![State::New; nodes.len()];
    for first in (0..nodes.len()).filter(|&node| wanted[node]) {
        let mut stack = vec![(first, 0)];
        while let Some((node, next)) = stack.pop() {
            if state[node] == State::Done {
                continue;
            }
            state[node] = State::Open;
            match needs[node].get(next) {
                Some(&needed) => {
                    stack.push((node, next + 1));
                    match state[needed] {
                        State::New => stack.push((needed, 0)),
                        State::Open => return Err(cycle(&nodes[needed])),
                        State::Done => {}
                    }
                }
                None => {
                    state[node] = State::Done;
                    order.push(node);
                }
            }
        }
    }
    Ok(order)
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Done,
}

fn cycle(node: &NodeProto) -> Error {
    Error::Node {
        node: node.name.clone().unwrap_or_default(),
        operator: node.op_type.clone().unwrap_or_default(),
        reason: "it needs its own result".into(),
    }
}

//! Products of one input with several constant weights are computed as one.

use std::collections::HashMap;

use millstream_core::{Activation, DType, Epilogue, Op};

use super::rewrite::rewrite;
use crate::Result;
use crate::constant::Folder;
use crate::graph::{Edge, Graph, Node, NodeOp};
use crate::view::View;

/// What the products of a group share: the input, the type, and whether there is a bias.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    input: Edge,
    dtype: DType,
    bias: bool,
}

fn key(graph: &Graph, node: &Node) -> Option<Key> {
    let NodeOp::Op(Op::MatMul { epilogue }) = &node.op else { return None };
    let Epilogue { scale, bias, residual, activation } = *epilogue;
    let constant = |edge: Edge| graph.constant(edge).is_some();
    let fits = scale == 1.0
        && !residual
        && activation == Activation::None
        && constant(node.inputs[1])
        && graph.shape(node.inputs[1]).len() == 2
        && (!bias || (constant(node.inputs[2]) && graph.shape(node.inputs[2]).len() == 1));
    let (input, dtype) = (node.inputs[0], graph.dtype(node.outputs[0]));
    (fits && dtype.is_float()).then_some(Key { input, dtype, bias })
}

pub(super) fn run(graph: &Graph, folder: &Folder) -> Result<Graph> {
    let mut groups: HashMap<Key, Vec<usize>> = HashMap::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        if let Some(key) = key(graph, node) {
            groups.entry(key).or_default().push(index);
        }
    }
    groups.retain(|_, members| members.len() > 1);
    // The whole product of a group, made with its first member.
    let mut wholes: HashMap<Key, Edge> = HashMap::new();
    rewrite(graph, folder, |rewrite, index, node| {
        let Some(key) = key(graph, node) else { return Ok(None) };
        let Some(members) = groups.get(&key) else { return Ok(None) };
        let whole = match wholes.get(&key) {
            Some(&whole) => whole,
            None => {
                let mut join = |operand: usize, axis: usize| {
                    let parts: Vec<Edge> = members
                        .iter()
                        .map(|&member| rewrite.new_edge(graph.nodes()[member].inputs[operand]))
                        .collect();
                    rewrite.builder().add_one(NodeOp::Concat { axis }, &parts)
                };
                let weight = join(1, 1)?;
                let bias = if key.bias { Some(join(2, 0)?) } else { None };
                let input = rewrite.new_edge(key.input);
                let inputs: Vec<Edge> = [input, weight].into_iter().chain(bias).collect();
                let whole = rewrite.builder().add_one(node.op.clone(), &inputs)?;
                wholes.insert(key, whole);
                whole
            }
        };
        let columns = |member: usize| graph.shape(graph.nodes()[member].inputs[1])[1];
        let before = members.iter().take_while(|&&member| member != index);
        let start = before.map(|&member| columns(member)).sum();
        let axis = graph.shape(node.outputs[0]).len() - 1;
        let view = View::Slice { axis, start, count: columns(index), step: 1 };
        rewrite.builder().add(NodeOp::View(view), &[whole]).map(Some)
    })
}

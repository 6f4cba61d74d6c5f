//! Convolutions on the CPU read and write the channels of one place after another.
//!
//! Products of a place with all output channels then need no gathering: what a row of the window sees lies in one piece. What
//! stands between convolutions lies in the same order, so nothing is copied there. Only how edges lie changes, and no number
//! of a batch has a say in it, so a row has the same bits in a batch of any size.

use millstream_core::{DType, Op};

use crate::constant::Folder;
use crate::graph::{Edge, Graph, Node, NodeOp};
use crate::view::View;

/// With fewer output channels vectors of them would be mostly empty.
const LEAST_CHANNELS: usize = 16;

pub(super) fn run(graph: &Graph, folder: &Folder) -> Graph {
    let mut marked = graph.clone();
    if folder.device().info().name != "cpu" {
        return marked;
    }
    for node in graph.nodes() {
        if let [output] = node.outputs[..]
            && is_wanted(&marked, node, output)
        {
            marked.lay_channels_last(output);
        }
    }
    marked
}

fn is_wanted(graph: &Graph, node: &Node, output: Edge) -> bool {
    let rank = graph.shape(output).len();
    if !(3..=5).contains(&rank) || graph.dtype(output) != DType::F32 {
        return false;
    }
    let is_last = |edge: &Edge| graph.is_channels_last(*edge);
    match &node.op {
        NodeOp::Op(Op::Conv { params, .. } | Op::ConvTranspose { params, .. }) => {
            let (inputs, outputs) = (graph.shape(node.inputs[0])[1], graph.shape(output)[1]);
            let groups = params.groups as usize;
            let suits = groups == 1 || (groups == inputs && groups == outputs);
            // An input that lies so already would have to be gathered number by number.
            let few = groups == 1 && is_last(&node.inputs[0]);
            let constant = graph.constant(node.inputs[1]).is_some();
            suits && (outputs >= LEAST_CHANNELS || few) && constant
        }
        NodeOp::Op(
            Op::Unary { .. } | Op::Binary { .. } | Op::Where | Op::Clip { .. } | Op::Chain { .. },
        ) => {
            let whole = |edge: &&Edge| graph.shape(**edge) == graph.shape(output);
            node.inputs.iter().filter(whole).any(is_last)
        }
        NodeOp::Op(Op::Pool { .. } | Op::Resize { .. }) | NodeOp::View(View::Slice { .. }) => {
            is_last(&node.inputs[0])
        }
        NodeOp::Concat { .. } => node.inputs.iter().any(is_last),
        NodeOp::Op(_) | NodeOp::View(_) => false,
    }
}

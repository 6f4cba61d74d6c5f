//! Weights of products are brought into the order that the device reads, once.

use millstream_core::Op;

use super::rewrite::{Replaced, Rewrite, rewrite};
use crate::Result;
use crate::constant::Folder;
use crate::graph::{Graph, Node, NodeOp};

pub(super) fn run(graph: &Graph, folder: &Folder) -> Result<Graph> {
    rewrite(graph, folder, |rewrite, _, node| replace(rewrite, node))
}

fn replace(rewrite: &mut Rewrite<'_>, node: &Node) -> Replaced {
    let NodeOp::Op(Op::MatMul { epilogue }) = node.op else { return Ok(None) };
    let weights = node.inputs[1];
    let spec = rewrite.old.spec(weights);
    let &[_, columns] = spec.shape() else { return Ok(None) };
    if rewrite.constant(weights).is_none() {
        return Ok(None);
    }
    let Some(layout) = rewrite.folder().device().packed_layout(&spec.layout()?) else {
        return Ok(None);
    };
    let weights = rewrite.new_edge(weights);
    let pack = NodeOp::Op(Op::PackWeights { bytes: layout.elements() });
    let packed = rewrite.builder().add_one(pack, &[weights])?;
    let mut inputs: Vec<_> = node.inputs.iter().map(|&input| rewrite.new_edge(input)).collect();
    inputs[1] = packed;
    rewrite.builder().add(NodeOp::Op(Op::MatMulPacked { columns, epilogue }), &inputs).map(Some)
}

//! Takes away nodes whose results nobody reads.

use millstream_core::LayerName;

use crate::Result;
use crate::graph::{Edge, Graph};

pub(super) fn run(graph: &Graph) -> Result<Graph> {
    let mut wanted = vec![false; graph.edges().len()];
    graph.outputs().iter().for_each(|output| wanted[output.index()] = true);
    let mut alive = vec![false; graph.nodes().len()];
    for (index, node) in graph.nodes().iter().enumerate().rev() {
        if node.outputs.iter().any(|output| wanted[output.index()]) {
            alive[index] = true;
            node.inputs.iter().for_each(|input| wanted[input.index()] = true);
        }
    }
    let mut new = Graph::new();
    let mut edges: Vec<Option<Edge>> = vec![None; graph.edges().len()];
    for &input in graph.inputs() {
        edges[input.index()] = Some(new.add_input(graph.spec(input)));
    }
    let carry = |new: &mut Graph, edges: &mut Vec<Option<Edge>>, edge: Edge| {
        *edges[edge.index()].get_or_insert_with(|| {
            let constant = graph.constant(edge).expect("an edge that is not made is a constant");
            new.add_constant(constant.clone())
        })
    };
    for (node, _) in graph.nodes().iter().zip(alive).filter(|(_, alive)| *alive) {
        let _layer = node.layer.map(LayerName::enter);
        let inputs: Vec<Edge> =
            node.inputs.iter().map(|&input| carry(&mut new, &mut edges, input)).collect();
        let made = new.add_node(node.op.clone(), &inputs)?;
        for (&old, made) in node.outputs.iter().zip(made) {
            edges[old.index()] = Some(made);
        }
    }
    for &output in graph.outputs() {
        let output = carry(&mut new, &mut edges, output);
        new.add_output(output);
    }
    Ok(new)
}

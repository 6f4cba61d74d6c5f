//! Going through a graph and writing a new one.

use millstream_core::{LayerName, Op};
use smallvec::SmallVec;

use crate::build::Builder;
use crate::constant::{Constant, Folder};
use crate::graph::{Edge, Graph, Mark, Node, NodeOp};
use crate::{Error, Result};

/// What a pass says of a node: the edges of the new graph that its outputs are, or nothing.
pub(super) type Replaced = Result<Option<SmallVec<[Edge; 1]>>>;

/// A graph that is being rewritten.
pub(super) struct Rewrite<'a> {
    /// The old graph: patterns are looked for here.
    pub old: &'a Graph,
    /// Which nodes read each edge of it; an output of the graph counts as one more.
    uses: Vec<Uses>,
    new: Graph,
    folder: &'a Folder,
    /// The edge of the new graph that each edge of the old one became.
    edges: Vec<Option<Edge>>,
    /// Constants of the old graph, in the order in which they came to the new one.
    constants: Vec<Edge>,
}

#[derive(Clone, Debug, Default)]
struct Uses {
    nodes: SmallVec<[usize; 2]>,
    outputs: usize,
}

/// Writes a new graph: what `replace` says in the place of a node, or else the node as it is.
pub(super) fn rewrite(
    old: &Graph,
    folder: &Folder,
    mut replace: impl FnMut(&mut Rewrite<'_>, usize, &Node) -> Replaced,
) -> Result<Graph> {
    let mut uses = vec![Uses::default(); old.edges().len()];
    for (index, node) in old.nodes().iter().enumerate() {
        node.inputs.iter().for_each(|input| uses[input.index()].nodes.push(index));
    }
    old.outputs().iter().for_each(|output| uses[output.index()].outputs += 1);
    let edges = vec![None; old.edges().len()];
    let constants = Vec::new();
    let mut rewrite = Rewrite { old, uses, new: Graph::new(), folder, edges, constants };
    for &input in old.inputs() {
        rewrite.edges[input.index()] = Some(rewrite.new.add_input(old.spec(input)));
    }
    for (index, node) in old.nodes().iter().enumerate() {
        let _layer = node.layer.map(LayerName::enter);
        let mark = rewrite.new.mark();
        let replaced = match replace(&mut rewrite, index, node) {
            // What the other form does not take, such as a tensor above the limit, is left as the model has it.
            Err(Error::Invalid { .. } | Error::Mismatch { .. }) => {
                rewrite.truncate(mark);
                None
            }
            replaced => replaced?,
        };
        let made = match replaced {
            Some(made) => made,
            None => {
                let inputs: SmallVec<[Edge; 4]> =
                    node.inputs.iter().map(|&input| rewrite.new_edge(input)).collect();
                rewrite.builder().add(node.op.clone(), &inputs)?
            }
        };
        for (&old, new) in node.outputs.iter().zip(made) {
            rewrite.edges[old.index()] = Some(new);
        }
    }
    for &output in old.outputs() {
        let output = rewrite.new_edge(output);
        rewrite.new.add_output(output);
    }
    Ok(rewrite.new)
}

impl Rewrite<'_> {
    /// Takes back what was added to the new graph since.
    fn truncate(&mut self, mark: Mark) {
        self.new.truncate(mark);
        let edges = self.new.edges().len();
        while let Some(constant) = self.constants.pop() {
            let place = &mut self.edges[constant.index()];
            if place.is_some_and(|edge| edge.index() < edges) {
                self.constants.push(constant);
                break;
            }
            *place = None;
        }
    }

    /// Adds nodes to the new graph.
    pub fn builder(&mut self) -> Builder<'_> {
        Builder { graph: &mut self.new, folder: self.folder }
    }

    /// The edge of the new graph that stands for one of the old.
    pub fn new_edge(&mut self, old: Edge) -> Edge {
        if let Some(new) = self.edges[old.index()] {
            return new;
        }
        // Everything else was made by a node that came before.
        let constant = self.old.constant(old).expect("an edge that is not made is a constant");
        let new = self.new.add_constant(constant.clone());
        self.edges[old.index()] = Some(new);
        self.constants.push(old);
        new
    }

    /// Adds an operation to the new graph, on edges of the old one.
    pub fn apply(&mut self, op: Op, inputs: &[Edge]) -> Replaced {
        let inputs: SmallVec<[Edge; 4]> =
            inputs.iter().map(|&input| self.new_edge(input)).collect();
        self.builder().add(NodeOp::Op(op), &inputs).map(Some)
    }

    /// The only node that reads an edge, if there is one and the edge is no output.
    pub fn only_use(&self, edge: Edge) -> Option<usize> {
        let uses = &self.uses[edge.index()];
        match uses.nodes[..] {
            [node] if uses.outputs == 0 => Some(node),
            _ => None,
        }
    }

    /// Whether an edge is read by these nodes alone.
    pub fn uses_within(&self, edge: Edge, nodes: &[usize]) -> bool {
        let uses = &self.uses[edge.index()];
        uses.outputs == 0 && uses.nodes.iter().all(|node| nodes.contains(node))
    }

    /// The operation that makes an edge which nobody else reads, with its node.
    pub fn sole_producer(&self, edge: Edge) -> Option<(usize, &Op, &Node)> {
        self.only_use(edge)?;
        let (index, node) = self.old.producer(edge)?;
        match &node.op {
            NodeOp::Op(op) => Some((index, op, node)),
            NodeOp::View(_) | NodeOp::Concat { .. } => None,
        }
    }

    /// The constant that an edge of the old graph is.
    pub fn constant(&self, edge: Edge) -> Option<&Constant> {
        self.old.constant(edge)
    }

    /// What computes constants.
    pub fn folder(&self) -> &Folder {
        self.folder
    }
}

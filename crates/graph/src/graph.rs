//! A graph of operations with concrete shapes.

use std::fmt;

use millstream_core::{DType, LayerName, Layout, Op, TensorSpec};
use smallvec::SmallVec;

use crate::constant::Constant;
use crate::view::{Sizes, View};
use crate::{Error, Result};

/// A value of a [`Graph`]: a tensor that a node makes, an input, or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge(u32);

impl Edge {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Edges that a node reads or makes.
pub type Edges = SmallVec<[Edge; 4]>;

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeOp {
    /// An operation of the device.
    Op(Op),
    /// Another view of the input.
    View(View),
    /// The inputs one behind the other along an axis.
    Concat {
        /// The axis.
        axis: usize,
    },
}

impl NodeOp {
    /// A short name.
    pub fn name(&self) -> &'static str {
        match self {
            NodeOp::Op(op) => op.name(),
            NodeOp::View(View::Reshape(_)) => "reshape",
            NodeOp::View(View::Permute(_)) => "permute",
            NodeOp::View(View::Slice { .. }) => "slice",
            NodeOp::View(View::Broadcast(_)) => "broadcast",
            NodeOp::View(View::Bits(_)) => "bits",
            NodeOp::Concat { .. } => "concat",
        }
    }

    /// What the node makes of these inputs.
    ///
    /// # Errors
    ///
    /// Inputs that do not fit.
    pub fn infer(&self, inputs: &[TensorSpec]) -> Result<SmallVec<[TensorSpec; 1]>> {
        match self {
            NodeOp::Op(op) => {
                let layouts: SmallVec<[Layout; 4]> =
                    inputs.iter().map(TensorSpec::layout).collect::<Result<_>>()?;
                let layouts: SmallVec<[&Layout; 4]> = layouts.iter().collect();
                Ok(op.infer(&layouts)?.iter().map(TensorSpec::of).collect())
            }
            NodeOp::View(view) => match inputs {
                [input] => Ok(SmallVec::from_iter([view.infer(input)?])),
                _ => invalid("view", format!("{} inputs", inputs.len())),
            },
            NodeOp::Concat { axis } => Ok(SmallVec::from_iter([joined(*axis, inputs)?])),
        }
    }
}

fn invalid<T>(op: &'static str, reason: String) -> Result<T> {
    Err(Error::Invalid { op, reason })
}

/// What the inputs are along an axis, one behind the other.
fn joined(axis: usize, inputs: &[TensorSpec]) -> Result<TensorSpec> {
    let Some(first) = inputs.first() else {
        return invalid("concat", "there are no inputs".into());
    };
    let mut shape: SmallVec<[usize; 8]> = SmallVec::from_slice(first.shape());
    if axis >= shape.len() {
        return invalid("concat", format!("axis {axis} of {first}"));
    }
    shape[axis] = 0;
    for input in inputs {
        let fits = input.dtype() == first.dtype()
            && input.shape().len() == shape.len()
            && (0..shape.len()).all(|at| at == axis || input.shape()[at] == shape[at]);
        let sum = fits.then(|| shape[axis].checked_add(input.shape()[axis])).flatten();
        match sum {
            Some(sum) => shape[axis] = sum,
            None => {
                return invalid(
                    "concat",
                    format!("{input} does not fit {first} along axis {axis}"),
                );
            }
        }
    }
    TensorSpec::new(first.dtype(), &shape)
}

/// A node: an operation on edges, which makes others.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub op: NodeOp,
    /// What it reads.
    pub inputs: Edges,
    /// What it makes.
    pub outputs: SmallVec<[Edge; 1]>,
    /// Where it comes from: the name of a node of the model, or of a layer.
    pub layer: Option<LayerName>,
}

/// Where the values of an edge come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The caller, as input of this number.
    Input(usize),
    /// The model.
    Constant(Constant),
    /// A node, as output of this number.
    Node(usize, usize),
}

#[derive(Clone, Debug)]
struct EdgeInfo {
    spec: TensorSpec,
    source: Source,
    /// Whether its elements are to lie channel by channel for each place.
    channels_last: bool,
}

/// Operations on tensors whose shapes are known. Nodes are in an order in which they can be computed.
///
/// Passes rewrite a graph, and lowering makes a plan of it. A graph belongs to one specialization of a model: one
/// set of input shapes.
#[derive(Clone, Default)]
pub struct Graph {
    edges: Vec<EdgeInfo>,
    nodes: Vec<Node>,
    inputs: Vec<Edge>,
    outputs: Vec<Edge>,
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    fn add_edge(&mut self, spec: TensorSpec, source: Source) -> Edge {
        self.edges.push(EdgeInfo { spec, source, channels_last: false });
        Edge(self.edges.len() as u32 - 1)
    }

    /// A further input.
    pub fn add_input(&mut self, spec: TensorSpec) -> Edge {
        let edge = self.add_edge(spec, Source::Input(self.inputs.len()));
        self.inputs.push(edge);
        edge
    }

    /// A constant.
    pub fn add_constant(&mut self, constant: Constant) -> Edge {
        self.add_edge(constant.spec(), Source::Constant(constant))
    }

    /// A further node, behind the others.
    ///
    /// # Errors
    ///
    /// Inputs that do not fit.
    pub fn add_node(&mut self, op: NodeOp, inputs: &[Edge]) -> Result<SmallVec<[Edge; 1]>> {
        let specs: SmallVec<[TensorSpec; 4]> = inputs.iter().map(|&edge| self.spec(edge)).collect();
        let made = op.infer(&specs)?;
        let node = self.nodes.len();
        let outputs: SmallVec<[Edge; 1]> = made
            .into_iter()
            .enumerate()
            .map(|(output, spec)| self.add_edge(spec, Source::Node(node, output)))
            .collect();
        let inputs = Edges::from_slice(inputs);
        self.nodes.push(Node { op, inputs, outputs: outputs.clone(), layer: LayerName::current() });
        Ok(outputs)
    }

    /// Makes an edge an output of the graph.
    pub fn add_output(&mut self, edge: Edge) {
        self.outputs.push(edge);
    }

    /// Element type and shape of an edge.
    pub fn spec(&self, edge: Edge) -> TensorSpec {
        self.edges[edge.index()].spec
    }

    /// The size of each axis of an edge.
    pub fn shape(&self, edge: Edge) -> &[usize] {
        self.edges[edge.index()].spec.shape()
    }

    /// Whether the elements of an edge are to lie channel by channel for each place, and not place by place for each
    /// channel. What is computed is the same.
    pub(crate) fn is_channels_last(&self, edge: Edge) -> bool {
        self.edges[edge.index()].channels_last
    }

    /// Says that an edge of at least three axes is to lie channel by channel for each place.
    pub(crate) fn lay_channels_last(&mut self, edge: Edge) {
        self.edges[edge.index()].channels_last = true;
    }

    /// How the elements of an edge are to lie.
    ///
    /// # Errors
    ///
    /// More elements than memory has.
    pub(crate) fn layout(&self, edge: Edge) -> Result<Layout> {
        let spec = self.spec(edge);
        if !self.is_channels_last(edge) {
            return spec.layout();
        }
        let order = channels_last_order(spec.shape().len());
        let shape: Sizes = order.iter().map(|&axis| spec.shape()[axis]).collect();
        Layout::contiguous(spec.dtype(), &shape)?.permute(&inverse(&order))
    }

    /// The element type of an edge.
    pub fn dtype(&self, edge: Edge) -> DType {
        self.edges[edge.index()].spec.dtype()
    }

    /// Where an edge comes from.
    pub fn source(&self, edge: Edge) -> &Source {
        &self.edges[edge.index()].source
    }

    /// The constant that an edge is.
    pub fn constant(&self, edge: Edge) -> Option<&Constant> {
        match self.source(edge) {
            Source::Constant(constant) => Some(constant),
            Source::Input(_) | Source::Node(..) => None,
        }
    }

    /// The node that makes an edge, with its number.
    pub fn producer(&self, edge: Edge) -> Option<(usize, &Node)> {
        match *self.source(edge) {
            Source::Node(node, _) => Some((node, &self.nodes[node])),
            Source::Input(_) | Source::Constant(_) => None,
        }
    }

    /// All nodes, in an order in which they can be computed.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All edges.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = Edge> + use<> {
        (0..self.edges.len()).map(|edge| Edge(edge as u32))
    }

    /// The inputs.
    pub fn inputs(&self) -> &[Edge] {
        &self.inputs
    }

    /// The outputs.
    pub fn outputs(&self) -> &[Edge] {
        &self.outputs
    }

    /// How far the graph has come, for [`truncate`](Self::truncate).
    pub(crate) fn mark(&self) -> Mark {
        Mark { edges: self.edges.len(), nodes: self.nodes.len(), inputs: self.inputs.len() }
    }

    /// Takes back what was added since.
    pub(crate) fn truncate(&mut self, mark: Mark) {
        self.edges.truncate(mark.edges);
        self.nodes.truncate(mark.nodes);
        self.inputs.truncate(mark.inputs);
    }
}

/// The axes batch, places, channels of a tensor whose axes are batch, channels, places.
fn channels_last_order(rank: usize) -> Sizes {
    [0].into_iter().chain(2..rank).chain([1]).take(rank).collect()
}

/// The order that undoes an order of axes.
pub(crate) fn inverse(order: &[usize]) -> Sizes {
    let mut back = Sizes::from_elem(0, order.len());
    order.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
    back
}

/// A place in the making of a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    edges: usize,
    nodes: usize,
    inputs: usize,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &input in &self.inputs {
            writeln!(f, "input {}: {}", input.0, self.spec(input))?;
        }
        for node in &self.nodes {
            for (index, output) in node.outputs.iter().enumerate() {
                let comma = if index == 0 { "" } else { ", " };
                write!(f, "{comma}{}: {}", output.0, self.spec(*output))?;
            }
            write!(f, " = {}", node.op.name())?;
            for &input in &node.inputs {
                match self.constant(input) {
                    Some(constant) => write!(f, " {constant:?}")?,
                    None => write!(f, " {}", input.0)?,
                }
            }
            writeln!(f)?;
        }
        let outputs: Vec<u32> = self.outputs.iter().map(|edge| edge.0).collect();
        write!(f, "output {outputs:?}")
    }
}

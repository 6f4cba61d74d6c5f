//! From a graph to a plan.
//!
//! Every edge gets a place: a slot of the plan and a layout in it. Views share the slot of what they view, so they cost nothing
//! where the memory allows it. A result that is only read by a concatenation, or that is an output, is written where it is wanted
//! in the first place ([`destination`]).

mod destination;

use std::collections::HashMap;

use millstream_core::{Command, LayerName, Layout, Op, Operand, Plan, PlanBuilder, Slot};
use smallvec::SmallVec;

use crate::constant::{Constant, Folder};
use crate::graph::{Edge, Graph, Node, NodeOp, Source, inverse};
use crate::view::{Sizes, View};
use crate::{Error, Result};
use destination::{Destinations, Root};

/// A graph as a plan.
pub(crate) struct Lowered {
    /// None if nothing has to be computed.
    pub plan: Option<Plan>,
    /// Which inputs of the graph the plan takes, in the order in which it does.
    pub inputs: Vec<usize>,
    /// The layouts of the outputs, as those of the graph.
    pub outputs: Vec<Layout>,
    /// The constants that the plan reads.
    pub constants: Vec<Constant>,
}

/// Makes a plan of a graph.
///
/// # Errors
///
/// A constant that cannot be computed, an operation that the device does not have, or no memory for weights.
pub(crate) fn lower(graph: &Graph, folder: &Folder) -> Result<Lowered> {
    let outputs: Vec<Layout> =
        graph.outputs().iter().map(|&edge| graph.spec(edge).layout()).collect::<Result<_>>()?;
    if outputs.is_empty() {
        let (inputs, constants) = (Vec::new(), Vec::new());
        return Ok(Lowered { plan: None, inputs, outputs, constants });
    }
    let mut lowering = Lowering::new(graph, folder, &outputs)?;
    for (number, node) in graph.nodes().iter().enumerate() {
        let scope = node.layer.map(LayerName::enter);
        lowering.node(number, node)?;
        drop(scope);
    }
    for (output, &edge) in graph.outputs().iter().enumerate() {
        lowering.finish_output(output, edge)?;
    }
    let Lowering { plan, inputs, constants, .. } = lowering;
    Ok(Lowered { plan: Some(plan.finish()?), inputs, outputs, constants })
}

/// Where the elements of an edge are in a run.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: Slot,
    layout: Layout,
}

impl Place {
    fn operand(&self) -> Operand<Slot> {
        self.slot.operand(self.layout)
    }

    /// Whether the elements of both are the same. The strides of axes of size 1 say nothing: views make any of them.
    fn is_same(&self, other: &Self) -> bool {
        let (own, other_layout) = (&self.layout, &other.layout);
        let strides = own.strides().iter().zip(other_layout.strides());
        self.slot == other.slot
            && own.dtype() == other_layout.dtype()
            && own.offset() == other_layout.offset()
            && own.shape() == other_layout.shape()
            && strides.zip(own.shape()).all(|((a, b), &size)| a == b || size == 1)
    }
}

struct Lowering<'a> {
    graph: &'a Graph,
    folder: &'a Folder,
    plan: PlanBuilder,
    /// Which inputs of the graph are read.
    inputs: Vec<usize>,
    constants: Vec<Constant>,
    loaded: HashMap<u64, Place>,
    places: Vec<Option<Place>>,
    destinations: Destinations,
    outputs: Vec<Slot>,
    /// Slots of concatenations that are written part by part.
    roots: HashMap<Edge, Slot>,
}

fn invalid<T>(reason: String) -> Result<T> {
    Err(Error::Invalid { op: "lower", reason })
}

impl<'a> Lowering<'a> {
    fn new(graph: &'a Graph, folder: &'a Folder, outputs: &[Layout]) -> Result<Self> {
        let mut plan = Plan::builder(folder.device());
        let mut places: Vec<Option<Place>> = vec![None; graph.edges().len()];
        let mut inputs = Vec::new();
        let read = graph.nodes().iter().flat_map(|node| &node.inputs);
        for &edge in read.chain(graph.outputs()) {
            if let Source::Input(input) = *graph.source(edge)
                && places[edge.index()].is_none()
            {
                let layout = graph.spec(edge).layout()?;
                places[edge.index()] = Some(Place { slot: plan.input(layout), layout });
                inputs.push(input);
            }
        }
        let outputs = outputs.iter().map(|layout| plan.output(*layout)).collect();
        Ok(Self {
            graph,
            folder,
            plan,
            inputs,
            constants: Vec::new(),
            loaded: HashMap::new(),
            places,
            destinations: Destinations::of(graph)?,
            outputs,
            roots: HashMap::new(),
        })
    }

    /// Where an edge is that was computed before, or is an input or a constant.
    fn place(&mut self, edge: Edge) -> Result<Place> {
        if let Some(place) = self.places[edge.index()] {
            return Ok(place);
        }
        let Some(constant) = self.graph.constant(edge) else {
            return invalid("an edge is read before it is made".into());
        };
        let place = self.loaded(&constant.clone())?;
        self.places[edge.index()] = Some(place);
        Ok(place)
    }

    /// Where a constant is.
    fn loaded(&mut self, constant: &Constant) -> Result<Place> {
        if let Some(&place) = self.loaded.get(&constant.number()) {
            return Ok(place);
        }
        let tensor = constant.load(self.folder)?;
        let place = Place { slot: self.plan.weights(tensor.buffer())?, layout: *tensor.layout() };
        self.loaded.insert(constant.number(), place);
        self.constants.push(constant.clone());
        Ok(place)
    }

    /// Weights of a convolution that lie with the output channels last, if the result is to lie so too.
    fn weights_last(&mut self, op: &Op, node: &Node, at: usize) -> Result<Option<Place>> {
        if at != 1 || !self.graph.is_channels_last(node.outputs[0]) {
            return Ok(None);
        }
        // Output and input channels are the first axes of the weights, or the other way round.
        let ends = match op {
            Op::Conv { .. } => [1, 0],
            Op::ConvTranspose { .. } => [0, 1],
            _ => return Ok(None),
        };
        let Some(constant) = self.graph.constant(node.inputs[at]) else { return Ok(None) };
        let spec = constant.spec();
        let order: Sizes = (2..spec.shape().len()).chain(ends).collect();
        let view = View::Permute(order.clone());
        let folded = self.folder.fold(
            &NodeOp::View(view.clone()),
            &[constant.clone()],
            &[view.infer(&spec)?],
        );
        let mut place = self.loaded(&folded[0])?;
        place.layout = place.layout.permute(&inverse(&order))?;
        Ok(Some(place))
    }

    /// A place for an edge that is about to be computed.
    fn new_place(&mut self, edge: Edge) -> Result<Place> {
        let place = match self.destinations.get(edge) {
            Some((root, layout)) => {
                let (root, layout) = (*root, *layout);
                Place { slot: self.root(root)?, layout }
            }
            None => {
                let layout = self.graph.layout(edge)?;
                Place { slot: self.plan.temporary(layout.dense_bytes()), layout }
            }
        };
        self.places[edge.index()] = Some(place);
        Ok(place)
    }

    fn root(&mut self, root: Root) -> Result<Slot> {
        match root {
            Root::Output(output) => Ok(self.outputs[output]),
            Root::Edge(edge) => {
                if let Some(&slot) = self.roots.get(&edge) {
                    return Ok(slot);
                }
                let slot = self.plan.temporary(self.graph.spec(edge).layout()?.dense_bytes());
                self.roots.insert(edge, slot);
                Ok(slot)
            }
        }
    }

    fn node(&mut self, _number: usize, node: &Node) -> Result<()> {
        match &node.op {
            NodeOp::Op(op) => self.op(op, node),
            NodeOp::View(view) => {
                let source = self.place(node.inputs[0])?;
                let place = match view.layout(&source.layout)? {
                    Some(layout) => Place { slot: source.slot, layout },
                    None => {
                        let dense = self.copied(source)?;
                        match view.layout(&dense.layout)? {
                            Some(layout) => Place { slot: dense.slot, layout },
                            None => return invalid("a view of dense memory needs a copy".into()),
                        }
                    }
                };
                self.places[node.outputs[0].index()] = Some(place);
                Ok(())
            }
            NodeOp::Concat { axis } => {
                let whole = self.new_place(node.outputs[0])?;
                let mut start = 0;
                for &input in &node.inputs {
                    let count = self.graph.shape(input)[*axis];
                    let part = whole.layout.slice(*axis, start, count, 1)?;
                    start += count;
                    let from = self.place(input)?;
                    // Most are there already, since they were written there.
                    let to = Place { slot: whole.slot, layout: part };
                    if !from.is_same(&to) {
                        self.plan.record(Command::copy(to.operand(), from.operand())?)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn op(&mut self, op: &Op, node: &Node) -> Result<()> {
        let mut read: SmallVec<[Operand<Slot>; 4]> = SmallVec::new();
        for (at, &input) in node.inputs.iter().enumerate() {
            let mut place = match self.weights_last(op, node, at)? {
                Some(weights) => weights,
                None => self.place(input)?,
            };
            if wants_dense(op, at, &place.layout) && !place.layout.is_contiguous() {
                place = self.copied(place)?;
            }
            read.push(place.operand());
        }
        let mut written: SmallVec<[Operand<Slot>; 1]> = SmallVec::new();
        for &output in &node.outputs {
            written.push(self.new_place(output)?.operand());
        }
        self.plan.record(Command::new(op.clone(), written, read)?)
    }

    /// A dense copy.
    fn copied(&mut self, source: Place) -> Result<Place> {
        let layout = Layout::contiguous(source.layout.dtype(), source.layout.shape())?;
        let copy = Place { slot: self.plan.temporary(layout.dense_bytes()), layout };
        self.plan.record(Command::copy(copy.operand(), source.operand())?)?;
        Ok(copy)
    }

    /// Brings an output to its place, if it was not written there.
    fn finish_output(&mut self, output: usize, edge: Edge) -> Result<()> {
        let from = self.place(edge)?;
        let to = Place { slot: self.outputs[output], layout: self.graph.spec(edge).layout()? };
        if !from.is_same(&to) {
            self.plan.record(Command::copy(to.operand(), from.operand())?)?;
        }
        Ok(())
    }
}

/// Whether an operand must lie densely: weights of few bits, and all types of which two share a byte.
fn wants_dense(op: &Op, operand: usize, layout: &Layout) -> bool {
    match op {
        Op::MatMulBlocks { .. } => operand >= 1,
        Op::MatMulPacked { .. } => operand == 1,
        _ => layout.dtype().per_byte() != 1,
    }
}

//! The graph of a batch in which each call has scales of its own.
//!
//! A dynamic quantization takes one scale for a whole tensor. In a batch it takes one for each part instead, and whoever reads scale
//! or zero point gets them repeated along the axis of the calls. Nothing depends on this being right: the proof goes through
//! what is written here as through any other graph. Where something reads a scale in a way that is not known here, the graph stays
//! as it is, and the proof says why calls are not joined.

use millstream_core::{DynamicRange, LayerName, Op, TensorSpec};
use smallvec::SmallVec;

use super::Share;
use super::cut::axis_in_reshape;
use super::number::{is_elementwise, takes_numbers, with_axis};
use super::signature;
use crate::build::Builder;
use crate::constant::Folder;
use crate::graph::{Edge, Graph, Node, NodeOp};
use crate::view::{Sizes, View};

/// What an edge of the batch became.
#[derive(Clone, Copy, Debug)]
struct Became {
    edge: Edge,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// As far as is known, the same for all calls.
    Whole,
    /// Each call has a part of this axis.
    Parts(usize),
    /// One number for each call, where the edge had one element.
    Number,
}

struct Segmenter<'a> {
    old: &'a Graph,
    new: Graph,
    calls: usize,
    folder: &'a Folder,
    edges: Vec<Option<Became>>,
}

/// The graph of a batch of so many calls, with a scale for each call wherever the scale of a whole tensor is computed. None if
/// there is no such place, or if a scale is read in another way than is known.
pub(crate) fn segmented(
    batch: &Graph,
    calls: usize,
    inputs: &[Share],
    folder: &Folder,
) -> Option<Graph> {
    if !batch.nodes().iter().any(|node| is_whole(&node.op)) {
        return None;
    }
    let edges = vec![None; batch.edges().len()];
    let mut segmenter = Segmenter { old: batch, new: Graph::new(), calls, folder, edges };
    for (&input, share) in batch.inputs().iter().zip(inputs) {
        let edge = segmenter.new.add_input(batch.spec(input));
        let kind = match share {
            Share::Whole => Kind::Whole,
            Share::Parts(axis) => Kind::Parts(*axis),
        };
        segmenter.edges[input.index()] = Some(Became { edge, kind });
    }
    for node in batch.nodes() {
        let _layer = node.layer.map(LayerName::enter);
        segmenter.node(node)?;
    }
    for &output in batch.outputs() {
        let Became { edge, kind } = segmenter.became(output)?;
        if kind == Kind::Number {
            return None;
        }
        segmenter.new.add_output(edge);
    }
    Some(segmenter.new)
}

/// Whether a node takes one scale for a whole tensor.
fn is_whole(op: &NodeOp) -> bool {
    matches!(op, NodeOp::Op(Op::DynamicQuantize { range: DynamicRange::Tensor, .. }))
}

impl Segmenter<'_> {
    fn became(&mut self, edge: Edge) -> Option<Became> {
        if let Some(became) = self.edges[edge.index()] {
            return Some(became);
        }
        let constant = self.old.constant(edge)?.clone();
        let became = Became { edge: self.new.add_constant(constant), kind: Kind::Whole };
        self.edges[edge.index()] = Some(became);
        Some(became)
    }

    fn add(&mut self, op: NodeOp, inputs: &[Edge]) -> Option<SmallVec<[Edge; 1]>> {
        Builder { graph: &mut self.new, folder: self.folder }.add(op, inputs).ok()
    }

    fn node(&mut self, node: &Node) -> Option<()> {
        let inputs: SmallVec<[Became; 4]> =
            node.inputs.iter().map(|&input| self.became(input)).collect::<Option<_>>()?;
        let (made, kinds) = if inputs.iter().any(|input| input.kind == Kind::Number) {
            self.reader(node, &inputs)?
        } else if let (true, Some(Kind::Parts(axis))) =
            (is_whole(&node.op), inputs.first().map(|input| input.kind))
        {
            self.quantization(node, inputs[0].edge, axis)?
        } else {
            let edges: SmallVec<[Edge; 4]> = inputs.iter().map(|input| input.edge).collect();
            (self.add(node.op.clone(), &edges)?, self.kinds(node, &inputs))
        };
        for ((&old, edge), kind) in node.outputs.iter().zip(made).zip(kinds) {
            if self.old.is_channels_last(old) && kind != Kind::Number {
                self.new.lay_channels_last(edge);
            }
            self.edges[old.index()] = Some(Became { edge, kind });
        }
        Some(())
    }

    /// How the outputs of a node are shared, as far as is known.
    fn kinds(&self, node: &Node, inputs: &[Became]) -> SmallVec<[Kind; 2]> {
        let of = |axis: Option<usize>| axis.map_or(Kind::Whole, Kind::Parts);
        if let (NodeOp::View(View::Reshape(shape)), Kind::Parts(axis)) =
            (&node.op, inputs_kind(inputs))
        {
            let from = self.old.shape(node.inputs[0]);
            return SmallVec::from_iter([of(axis_in_reshape(from, axis, shape, self.calls))]);
        }
        let whole = || SmallVec::from_elem(Kind::Whole, node.outputs.len());
        let specs = |edges: &[Edge]| -> SmallVec<[TensorSpec; 4]> {
            edges.iter().map(|&edge| self.old.spec(edge)).collect()
        };
        let signature = signature::of(&node.op, &specs(&node.inputs), &specs(&node.outputs));
        let Some(signature) = signature else { return whole() };
        let number = inputs.iter().zip(&signature.inputs).find_map(|(input, axes)| {
            let Kind::Parts(axis) = input.kind else { return None };
            axes.get(axis).copied().flatten()
        });
        let Some(number) = number else { return whole() };
        let place = |axes: &signature::Axes| axes.iter().position(|axis| *axis == Some(number));
        signature.outputs.iter().map(|axes| of(place(axes))).collect()
    }

    /// A quantization with one scale for each call.
    fn quantization(&mut self, node: &Node, source: Edge, axis: usize) -> Option<Made> {
        let NodeOp::Op(Op::DynamicQuantize { dtype, .. }) = node.op else { return None };
        let (along, parts) = (u8::try_from(axis).ok()?, u32::try_from(self.calls).ok()?);
        let range = DynamicRange::Parts { axis: along, parts };
        let made = self.add(NodeOp::Op(Op::DynamicQuantize { range, dtype }), &[source])?;
        let mut kinds = SmallVec::from_elem(Kind::Number, made.len());
        kinds[0] = Kind::Parts(axis);
        Some((made, kinds))
    }

    /// A node that reads numbers of the calls.
    fn reader(&mut self, node: &Node, inputs: &[Became]) -> Option<Made> {
        let NodeOp::Op(op) = &node.op else { return None };
        let is_number = |place: &usize| inputs[*place].kind == Kind::Number;
        if (0..inputs.len()).filter(is_number).any(|place| !takes_numbers(op, place)) {
            return None;
        }
        let parted = inputs.iter().any(|input| matches!(input.kind, Kind::Parts(_)));
        let mut edges: SmallVec<[Edge; 4]> = inputs.iter().map(|input| input.edge).collect();
        if !parted {
            // What is made of numbers and of single elements is a number again.
            let made = self.add(node.op.clone(), &edges).filter(|_| is_elementwise(op))?;
            let one_each = made.iter().all(|&edge| self.new.shape(edge) == [self.calls]);
            return one_each.then(|| (made, SmallVec::from_elem(Kind::Number, node.outputs.len())));
        }
        let kinds = self.kinds(node, inputs);
        let Some(&Kind::Parts(axis)) = kinds.first() else { return None };
        let made = self.old.shape(node.outputs[0]);
        let size = made[axis];
        let (op, shape) = match op {
            Op::Quantize { axis: None, .. } | Op::Dequantize { axis: None, .. } => {
                if !(1..inputs.len()).all(|place| is_number(&place)) {
                    return None;
                }
                (with_axis(op, Some(u8::try_from(axis).ok()?)), Sizes::from_slice(&[size]))
            }
            op => {
                let mut shape = Sizes::from_elem(1, made.len());
                shape[axis] = size;
                (op.clone(), shape)
            }
        };
        for place in (0..inputs.len()).filter(is_number) {
            edges[place] = self.repeated(edges[place], &shape, size)?;
        }
        let outputs = self.add(NodeOp::Op(op), &edges)?;
        let same = outputs.iter().zip(&node.outputs);
        let same = same.into_iter().all(|(&new, &old)| self.new.spec(new) == self.old.spec(old));
        same.then_some((outputs, kinds))
    }

    /// A number of each call, repeated along an axis of so many indices, which is the only one of the shape.
    fn repeated(&mut self, numbers: Edge, shape: &Sizes, size: usize) -> Option<Edge> {
        let (mut edge, calls) = (numbers, self.calls);
        let mut view = |view: View| -> Option<()> {
            edge = *self.add(NodeOp::View(view), &[edge])?.first()?;
            Some(())
        };
        let rows = size / calls;
        if rows > 1 {
            view(View::Reshape(Sizes::from_slice(&[calls, 1])))?;
            view(View::Broadcast(Sizes::from_slice(&[calls, rows])))?;
        }
        view(View::Reshape(shape.clone()))?;
        Some(edge)
    }
}

type Made = (SmallVec<[Edge; 1]>, SmallVec<[Kind; 2]>);

/// How the only input of a view is shared.
fn inputs_kind(inputs: &[Became]) -> Kind {
    inputs.first().map_or(Kind::Whole, |input| input.kind)
}

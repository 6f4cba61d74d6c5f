//! The graph of one call, cut from the graph of a batch.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use millstream_core::{Op, TensorSpec};
use smallvec::SmallVec;

use super::signature::{self, Signature};
use super::{Obstacle, Share};
use crate::build::Builder;
use crate::constant::{Constant, Folder};
use crate::graph::{Edge, Graph, Node, NodeOp, Source};
use crate::view::{Sizes, View};
use crate::{Array, Result as ModelResult};

type Result<T> = std::result::Result<T, Obstacle>;

/// The outputs of a node for one call, and how those of the batch are shared.
pub(super) type Made = (SmallVec<[Edge; 1]>, SmallVec<[Share; 1]>);

/// Constants up to so many bytes are looked at to see whether they repeat along an axis.
pub(super) const COMPARED_BYTES: usize = 1 << 22;

pub(super) struct Cut<'a> {
    batch: &'a Graph,
    calls: usize,
    folder: &'a Folder,
    /// The graph of one call.
    part: Graph,
    /// How each edge of the batch is shared, and its counterpart for one call.
    known: Vec<Option<(Share, Edge)>>,
    /// Edges that are the same for all calls, cut along an axis that they repeat along.
    repeated: HashMap<(Edge, usize), Edge>,
    /// Edges of the batch that have one number for each call. The counterpart for one call has one element.
    numbers: HashSet<Edge>,
    /// How many nodes deep the search for what repeats is.
    nested: usize,
}

/// What repeats is followed through so many nodes.
const DEEPEST: usize = 64;

/// The shape with an axis cut in so many parts.
fn part_of(shape: &[usize], axis: usize, calls: usize) -> Option<Sizes> {
    let mut sizes = Sizes::from_slice(shape);
    let size = sizes.get_mut(axis)?;
    if *size % calls != 0 {
        return None;
    }
    *size /= calls;
    Some(sizes)
}

/// The axis of the calls behind a reshape, if there is one: the first that begins where that of the source begins. Axes of size 1 are
/// no calls.
pub(super) fn axis_in_reshape(
    from: &[usize],
    axis: usize,
    to: &[usize],
    calls: usize,
) -> Option<usize> {
    let outer: usize = from[..axis].iter().product();
    let mut before = 1usize;
    let found = to.iter().position(|&size| {
        let begins = before == outer && size > 1;
        before = before.saturating_mul(size);
        begins
    });
    found.filter(|&axis| to[axis].is_multiple_of(calls))
}

fn part_spec(spec: &TensorSpec, axis: usize, calls: usize) -> Option<TensorSpec> {
    TensorSpec::new(spec.dtype(), &part_of(spec.shape(), axis, calls)?).ok()
}

impl<'a> Cut<'a> {
    pub fn new(
        batch: &'a Graph,
        calls: usize,
        inputs: &[Share],
        folder: &'a Folder,
    ) -> Result<Self> {
        let known = vec![None; batch.edges().len()];
        let (part, repeated, numbers) = (Graph::new(), HashMap::new(), HashSet::new());
        let mut cut = Self { batch, calls, folder, part, known, repeated, numbers, nested: 0 };
        for (at, (&edge, &share)) in batch.inputs().iter().zip(inputs).enumerate() {
            let spec = batch.spec(edge);
            let spec = match share {
                Share::Whole => Some(spec),
                Share::Parts(axis) => part_spec(&spec, axis, calls),
            };
            let Some(spec) = spec else {
                return Err(Obstacle::of(format!("input {at} has no axis of calls")));
            };
            let part = cut.part.add_input(spec);
            cut.known[edge.index()] = Some((share, part));
        }
        Ok(cut)
    }

    pub fn graph(&self) -> &Graph {
        &self.part
    }

    pub(super) fn batch(&self) -> &'a Graph {
        self.batch
    }

    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    pub(super) fn folder(&self) -> &Folder {
        self.folder
    }

    /// Whether an edge of the batch has one number for each call.
    pub fn is_number(&self, edge: Edge) -> bool {
        self.numbers.contains(&edge)
    }

    pub(super) fn note_number(&mut self, edge: Edge) {
        self.numbers.insert(edge);
    }

    /// Whether an edge for one call has the shape of a part of that of the batch.
    pub(super) fn is_part(&self, edge: Edge, part: Edge, share: Share) -> bool {
        let Share::Parts(axis) = share else { return false };
        part_spec(&self.batch.spec(edge), axis, self.calls) == Some(self.part.spec(part))
    }

    pub(super) fn add_constant(&mut self, array: Array) -> Edge {
        self.part.add_constant(Constant::new(array))
    }

    fn specs(&self, edges: &[Edge]) -> SmallVec<[TensorSpec; 4]> {
        edges.iter().map(|&edge| self.batch.spec(edge)).collect()
    }

    /// How an edge of the batch is shared. Constants are the same for all.
    pub fn share(&self, edge: Edge) -> Share {
        self.known[edge.index()].map_or(Share::Whole, |(share, _)| share)
    }

    /// The counterpart of an edge for one call.
    pub fn part(&mut self, edge: Edge) -> Result<Edge> {
        if let Some((_, part)) = self.known[edge.index()] {
            return Ok(part);
        }
        let Some(constant) = self.batch.constant(edge) else {
            return Err(Obstacle::of("a value is read before it is made"));
        };
        let part = self.part.add_constant(constant.clone());
        self.known[edge.index()] = Some((Share::Whole, part));
        Ok(part)
    }

    pub(super) fn add(
        &mut self,
        node: &Node,
        op: NodeOp,
        inputs: &[Edge],
    ) -> Result<SmallVec<[Edge; 1]>> {
        let mut builder = Builder { graph: &mut self.part, folder: self.folder };
        let made: ModelResult<_> = builder.add(op, inputs);
        made.map_err(|error| Obstacle::at(node, format!("for one call: {error}")))
    }

    /// Goes on to the next node.
    pub fn node(&mut self, node: &Node) -> Result<()> {
        let parted = node.inputs.iter().any(|&input| self.share(input) != Share::Whole);
        let number = if parted { self.number(node)? } else { None };
        let (made, shares) = match (&node.op, number) {
            (_, Some(number)) => number,
            (op, None) if !parted => {
                let inputs = node.inputs.iter().map(|&input| self.part(input));
                let inputs = inputs.collect::<Result<SmallVec<[Edge; 4]>>>()?;
                let made = self.add(node, op.clone(), &inputs)?;
                (made, SmallVec::from_elem(Share::Whole, node.outputs.len()))
            }
            (NodeOp::View(View::Reshape(shape)), None) => self.reshape(node, shape)?,
            (op, None) => self.parts(node, op)?,
        };
        for ((&output, part), share) in node.outputs.iter().zip(made).zip(shares) {
            let is_part = match share {
                Share::Whole => true,
                Share::Parts(_) => self.is_number(output) || self.is_part(output, part, share),
            };
            if !is_part {
                return Err(Obstacle::at(
                    node,
                    "one call makes no part of what the batch does".into(),
                ));
            }
            self.known[output.index()] = Some((share, part));
        }
        Ok(())
    }

    /// A reshape: the axis of the calls must be found again in the new shape.
    fn reshape(&mut self, node: &Node, shape: &Sizes) -> Result<Made> {
        let source = node.inputs[0];
        let Share::Parts(axis) = self.share(source) else {
            return Err(Obstacle::at(node, "its source has no parts".into()));
        };
        let found = axis_in_reshape(self.batch.shape(source), axis, shape, self.calls);
        let cut = found.and_then(|axis| Some((axis, part_of(shape, axis, self.calls)?)));
        let Some((axis, sizes)) = cut else {
            let from = self.batch.spec(source);
            let text =
                format!("the reshape of {from} to {:?} joins parts of several calls", &shape[..]);
            return Err(Obstacle::at(node, text));
        };
        let part = self.part(source)?;
        let made = self.add(node, NodeOp::View(View::Reshape(sizes)), &[part])?;
        Ok((made, SmallVec::from_iter([Share::Parts(axis)])))
    }

    /// A node on parts: the number of their axis, and the node for one part.
    fn parts(&mut self, node: &Node, op: &NodeOp) -> Result<Made> {
        let (inputs, outputs) = (self.specs(&node.inputs), self.specs(&node.outputs));
        let Some(signature) = signature::of(op, &inputs, &outputs) else {
            return Err(Obstacle::at(node, "it has no axes".into()));
        };
        let mut number: Option<(u8, usize)> = None;
        for ((&input, axes), spec) in node.inputs.iter().zip(&signature.inputs).zip(&inputs) {
            let Share::Parts(axis) = self.share(input) else { continue };
            let Some(found) = axes.get(axis).copied().flatten() else {
                if let Some(made) = self.gather_by_row(node)? {
                    return Ok(made);
                }
                return Err(Obstacle::at(node, combined(op, spec, axis)));
            };
            let size = spec.shape()[axis];
            if number.is_some_and(|number| number != (found, size)) {
                let text = format!("calls are on different axes of the inputs of {}", op.name());
                return Err(Obstacle::at(node, text));
            }
            number = Some((found, size));
        }
        let Some((number, _)) = number else {
            return Err(Obstacle::at(node, "none of its inputs has parts".into()));
        };
        let op = self.with_numbers(node, op)?;
        let made = self.numbered(node, &op, &signature, number)?;
        self.check_numbers(node, &made)?;
        Ok(made)
    }

    /// The node for one part of the axes with this number.
    fn numbered(
        &mut self,
        node: &Node,
        op: &NodeOp,
        signature: &Signature,
        number: u8,
    ) -> Result<Made> {
        let mut parts: SmallVec<[Edge; 4]> = SmallVec::new();
        for (&input, axes) in node.inputs.iter().zip(&signature.inputs) {
            parts.push(match self.share(input) {
                Share::Parts(_) => self.part(input)?,
                Share::Whole => {
                    let shape = self.batch.shape(input);
                    let spans = (0..shape.len())
                        .find(|&axis| axes[axis] == Some(number) && shape[axis] > 1);
                    match spans {
                        Some(axis) => self.repeated(input, axis, node)?,
                        None => self.part(input)?,
                    }
                }
            });
        }
        let mut shares: SmallVec<[Share; 1]> = SmallVec::new();
        for (output, axes) in node.outputs.iter().zip(&signature.outputs) {
            match axes.iter().position(|axis| *axis == Some(number)) {
                Some(axis) => shares.push(Share::Parts(axis)),
                None => {
                    let spec = self.batch.spec(*output);
                    return Err(Obstacle::at(node, format!("{spec} is computed from all calls")));
                }
            }
        }
        let sized = match shares.first() {
            Some(Share::Parts(axis)) => self.sized(op, *axis),
            Some(Share::Whole) | None => Some(op.clone()),
        };
        let Some(sized) = sized else {
            return Err(Obstacle::at(node, "its sizes cannot be divided by the calls".into()));
        };
        Ok((self.add(node, sized, &parts)?, shares))
    }

    /// The same operation where an axis of its output is that of one call.
    pub(super) fn sized(&self, op: &NodeOp, axis: usize) -> Option<NodeOp> {
        Some(match op {
            NodeOp::View(View::Broadcast(shape)) => {
                NodeOp::View(View::Broadcast(part_of(shape, axis, self.calls)?))
            }
            NodeOp::Op(Op::Resize { params }) => {
                let mut params = params.clone();
                let size = params.sizes.get_mut(axis)?;
                if *size % self.calls != 0 {
                    return None;
                }
                *size /= self.calls;
                NodeOp::Op(Op::Resize { params })
            }
            op => op.clone(),
        })
    }

    /// An edge that is the same for all calls and meets parts of them along an axis: it must repeat along it.
    pub(super) fn repeated(&mut self, edge: Edge, axis: usize, reader: &Node) -> Result<Edge> {
        if let Some(&known) = self.repeated.get(&(edge, axis)) {
            return Ok(known);
        }
        let spec = self.batch.spec(edge);
        let differs = || {
            let text =
                format!("axis {axis} of {spec} meets the axis of the calls, and differs along it");
            Obstacle::at(reader, text)
        };
        let calls = self.calls;
        let cut = part_spec(&spec, axis, calls).ok_or_else(differs)?;
        let made = match self.batch.source(edge) {
            Source::Input(_) => return Err(differs()),
            Source::Constant(constant) => {
                let array = self.repeats(constant, axis).ok_or_else(differs)?;
                self.part.add_constant(Constant::new(array))
            }
            &Source::Node(node, output) => {
                let node = &self.batch.nodes()[node];
                match &node.op {
                    NodeOp::Op(Op::Fill { value, .. }) => {
                        let fill = NodeOp::Op(Op::Fill { value: *value, spec: cut });
                        self.add(node, fill, &[])?[0]
                    }
                    NodeOp::View(View::Reshape(_)) => return Err(differs()),
                    op if self.nested < DEEPEST => {
                        let (inputs, outputs) =
                            (self.specs(&node.inputs), self.specs(&node.outputs));
                        let signature = signature::of(op, &inputs, &outputs).ok_or_else(differs)?;
                        let number = signature.outputs[output][axis].ok_or_else(differs)?;
                        self.nested += 1;
                        let made = self.numbered(node, op, &signature, number);
                        self.nested -= 1;
                        made?.0[output]
                    }
                    _ => return Err(differs()),
                }
            }
        };
        self.repeated.insert((edge, axis), made);
        Ok(made)
    }

    /// The part of a constant, if all parts along an axis are equal.
    fn repeats(&self, constant: &Constant, axis: usize) -> Option<Array> {
        let spec = constant.spec();
        let bytes = spec.layout().ok()?.dense_bytes();
        if bytes > COMPARED_BYTES || spec.dtype().per_byte() != 1 {
            return None;
        }
        let array = constant.array(self.folder).ok()?;
        let part = part_spec(&spec, axis, self.calls)?;
        let outer: usize = spec.shape()[..axis].iter().product();
        let row = bytes.checked_div(outer)?;
        let each = row / self.calls;
        let mut first = Vec::with_capacity(outer * each);
        for row in array.bytes().chunks_exact(row.max(1)).take(outer) {
            let (begin, _) = row.split_at(each);
            if row.chunks_exact(each.max(1)).any(|part| part != begin) {
                return None;
            }
            first.extend_from_slice(begin);
        }
        Array::new(part.dtype(), part.shape(), Bytes::from(first)).ok()
    }
}

/// Why a node does not keep calls apart.
fn combined(op: &NodeOp, spec: &TensorSpec, axis: usize) -> String {
    match op {
        NodeOp::Op(Op::DynamicQuantize { .. }) => {
            "it takes one scale for all calls, so that a call's answer would depend on the others"
                .into()
        }
        op => format!("{} combines axis {axis} of {spec}, which is that of the calls", op.name()),
    }
}

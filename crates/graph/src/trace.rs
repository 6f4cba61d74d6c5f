//! Graphs of code that is written with tensors.
//!
//! The code is traced as for a plan: it runs once, and its Commands are written down. Commands read and write parts of buffers; nodes
//! of a graph make whole tensors. So every buffer has, at each point of the trace, the edge that has its contents; what
//! a Command reads of it is a chain of [views](cut::views), and what is written part by part is a concatenation.

mod code;
mod cut;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use millstream_core::{
    Command, DType, Device, Layout, Op, Operand, TensorSpec, Trace, TracedValue,
};
use millstream_nn::Tensor;
use smallvec::SmallVec;

use crate::constant::Constant;
use crate::graph::{Edge, Graph, NodeOp};
use crate::view::{Sizes, View};
use crate::{Array, Error, Result};
use cut::Cut;

fn invalid<T>(reason: String) -> Result<T> {
    Err(Error::Invalid { op: "trace", reason })
}

impl Graph {
    /// What `work` does with inputs of these shapes and types, as a graph. `work` runs once, on zeros.
    ///
    /// Weights of the code are [constants](Constant) of the graph, without copies. So is what the code makes from numbers on the
    /// host, and everything that is computed from those alone. To run code as a [`Session`](crate::Session) for any
    /// shapes, see [`SessionBuilder::trace`](crate::SessionBuilder::trace).
    ///
    /// ```
    /// use millstream_core::{DType, Device};
    /// use millstream_graph::Graph;
    /// # use millstream_cpu as _;
    ///
    /// let graph = Graph::trace(&Device::cpu()?, &[(&[2, 3], DType::F32)], |inputs| {
    ///     Ok(vec![inputs[0].transpose(0, 1)?.relu()?])
    /// })?;
    /// assert_eq!(graph.shape(graph.outputs()[0]), [3, 2]);
    /// # Ok::<(), millstream_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Plan::trace`](millstream_nn::Plan::trace): the error of `work`; values that it reads on the host; a tensor from
    /// elsewhere that is not settled. Memory that is written or read in parts which are no views of each other.
    pub fn trace(
        device: &Device,
        inputs: &[(&[usize], DType)],
        work: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Self> {
        let layouts = inputs.iter().map(|(shape, dtype)| Layout::contiguous(*dtype, shape));
        let layouts: Vec<Layout> = layouts.collect::<Result<_>>()?;
        let trace = Trace::of(device, &layouts, |buffers| {
            let given = buffers.iter().zip(&layouts);
            let given: Vec<Tensor> = given
                .map(|(buffer, layout)| Tensor::from_buffer(buffer.clone(), *layout))
                .collect::<Result<_>>()?;
            let results = work(&given)?.into_iter();
            Ok::<_, Error>(
                results
                    .map(|result| Operand::new(result.buffer().clone(), *result.layout()))
                    .collect(),
            )
        })?;
        Writer::new(&trace, &layouts)?.write()
    }
}

/// How many choices of shapes are tried for the inputs of a Command.
const MAX_FORMS: usize = 1 << 12;

/// The shapes in which an operation may take what a Command reads so, the likeliest first.
fn forms(layout: &Layout) -> Vec<Sizes> {
    let full = Sizes::from_slice(layout.shape());
    let sizes = || layout.shape().iter().zip(layout.strides());
    let single: Sizes =
        sizes().map(|(&size, &stride)| if stride == 0 && size > 1 { 1 } else { size }).collect();
    let flat: Sizes = single.iter().copied().filter(|&size| size != 1).collect();
    let one = if flat.is_empty() { vec![Sizes::from_slice(&[1]), flat] } else { vec![flat] };
    let mut forms = vec![single, full];
    forms.splice(1..1, one);
    forms.dedup();
    forms
}

/// The contents of a value at one point of the trace.
enum Contents {
    /// Those of an edge, whose dense elements are those of the value.
    Whole(Edge),
    /// Those of several edges. The rest was not written.
    Parts(Vec<(Cut, Edge)>),
}

struct Writer<'a> {
    trace: &'a Trace,
    graph: Graph,
    contents: HashMap<usize, Contents>,
    /// Weights by how they are read.
    constants: HashMap<usize, Vec<(Layout, Edge)>>,
}

impl<'a> Writer<'a> {
    fn new(trace: &'a Trace, inputs: &[Layout]) -> Result<Self> {
        let mut graph = Graph::new();
        let edges: Vec<Edge> =
            inputs.iter().map(|layout| graph.add_input(TensorSpec::of(layout))).collect();
        let mut contents = HashMap::new();
        for (value, known) in trace.values().iter().enumerate() {
            if let TracedValue::Input(input) = known {
                contents.insert(value, Contents::Whole(edges[*input]));
            }
        }
        Ok(Self { trace, graph, contents, constants: HashMap::new() })
    }

    fn write(mut self) -> Result<Graph> {
        for traced in self.trace.commands() {
            let scope = traced.layer.map(millstream_core::LayerName::enter);
            self.command(&traced.command)?;
            drop(scope);
        }
        for &(value, layout) in self.trace.results() {
            let edge = self.read(value, &layout)?;
            let edge = self.view(View::Broadcast(Sizes::from_slice(layout.shape())), edge)?;
            self.graph.add_output(edge);
        }
        Ok(self.graph)
    }

    fn command(&mut self, command: &Command<usize>) -> Result<()> {
        let mut inputs: SmallVec<[Edge; 4]> = SmallVec::new();
        for operand in command.inputs() {
            inputs.push(self.read(operand.buffer, &operand.layout)?);
        }
        let made = match (command.op(), &inputs[..]) {
            // What is copied stays what it is.
            (Op::Copy { dtype, .. }, [input]) if self.graph.dtype(*input) == *dtype => {
                let shape = command.inputs()[0].layout.shape();
                SmallVec::from_iter([self.view(View::Broadcast(Sizes::from_slice(shape)), *input)?])
            }
            (op, _) => {
                self.fit(command, &mut inputs)?;
                self.graph.add_node(NodeOp::Op(op.clone()), &inputs)?
            }
        };
        for (operand, &edge) in command.outputs().iter().zip(&made) {
            self.written(operand.buffer, &operand.layout, edge)?;
        }
        Ok(())
    }

    /// Brings what a Command reads to the shapes that its operation takes.
    ///
    /// A Command has inputs that were repeated along axes already; the operation of a node repeats them itself. So each is
    /// tried in its shapes until the node makes what the Command made.
    fn fit(&mut self, command: &Command<usize>, inputs: &mut [Edge]) -> Result<()> {
        let wanted: SmallVec<[TensorSpec; 1]> =
            command.outputs().iter().map(|output| TensorSpec::of(&output.layout)).collect();
        let forms: Vec<Vec<Sizes>> =
            command.inputs().iter().map(|operand| forms(&operand.layout)).collect();
        let op = NodeOp::Op(command.op().clone());
        let mut chosen: Vec<usize> = vec![0; forms.len()];
        for _ in 0..MAX_FORMS {
            let shapes = chosen.iter().zip(&forms).map(|(&form, forms)| &forms[form]);
            let specs: Vec<TensorSpec> = shapes
                .zip(inputs.iter())
                .map(|(shape, &edge)| TensorSpec::new(self.graph.dtype(edge), shape))
                .collect::<Result<_>>()?;
            if op.infer(&specs).is_ok_and(|made| made == wanted) {
                for (spec, edge) in specs.iter().zip(inputs.iter_mut()) {
                    let shape = Sizes::from_slice(spec.shape());
                    let elements = |shape: &[usize]| shape.iter().product::<usize>();
                    let is_same = elements(&shape) == elements(self.graph.shape(*edge));
                    let view = if is_same { View::Reshape(shape) } else { View::Broadcast(shape) };
                    *edge = self.view(view, *edge)?;
                }
                return Ok(());
            }
            // The next choice, as a number of which each digit is a form.
            let next = (0..chosen.len()).find(|&at| chosen[at] + 1 < forms[at].len());
            let Some(next) = next else { break };
            chosen[..next].fill(0);
            chosen[next] += 1;
        }
        invalid(format!("{} cannot be a node of a graph", command.op().name()))
    }

    /// The part of a value that a layout has, as an edge. Axes that are repeated have size 1.
    fn read(&mut self, value: usize, layout: &Layout) -> Result<Edge> {
        let Some(layout) = &cut::single(layout) else {
            return invalid(format!("{layout:?} is read"));
        };
        if layout.is_empty() {
            return Ok(self.graph.add_constant(Constant::new(Array::new(
                layout.dtype(),
                layout.shape(),
                vec![],
            )?)));
        }
        if let TracedValue::Weights(buffer) = &self.trace.values()[value] {
            let known = self.constants.entry(value).or_default();
            if let Some((_, edge)) = known.iter().find(|(known, _)| known == layout) {
                return Ok(*edge);
            }
            let tensor = Tensor::from_buffer(buffer.clone(), *layout)?;
            let edge = self.graph.add_constant(Constant::of_weights(tensor)?);
            known.push((*layout, edge));
            return Ok(edge);
        }
        let Some(Contents::Whole(whole)) = self.contents.get(&value) else {
            return invalid(format!("{layout:?} is read of memory that was not written whole"));
        };
        let mut edge = *whole;
        if self.graph.dtype(edge) != layout.dtype() {
            edge = self.view(View::Bits(layout.dtype()), edge)?;
        }
        let Some(views) = cut::views(layout, self.graph.shape(edge)) else {
            let spec = self.graph.spec(edge);
            return invalid(format!("{layout:?} is no view of {spec}: copy it first"));
        };
        views.into_iter().try_fold(edge, |edge, view| self.view(view, edge))
    }

    /// A view, if it is not the same as its source.
    fn view(&mut self, view: View, edge: Edge) -> Result<Edge> {
        let is_same = match &view {
            View::Reshape(shape) | View::Broadcast(shape) => self.graph.shape(edge) == &shape[..],
            View::Permute(order) => order.iter().enumerate().all(|(at, &axis)| at == axis),
            View::Slice { .. } => false,
            View::Bits(dtype) => self.graph.dtype(edge) == *dtype,
        };
        if is_same {
            return Ok(edge);
        }
        Ok(self.graph.add_node(NodeOp::View(view), &[edge])?[0])
    }

    /// Notes that a part of a value now is this edge.
    fn written(&mut self, value: usize, layout: &Layout, edge: Edge) -> Result<()> {
        let TracedValue::Made { bytes } = self.trace.values()[value] else {
            return invalid("memory is written that the traced code did not make".into());
        };
        if layout.is_empty() {
            return Ok(());
        }
        // Dense elements in the order in which they lie.
        let edge = self.view(View::Permute(cut::memory_order(layout)), edge)?;
        if layout.dense_bytes() == bytes {
            self.contents.insert(value, Contents::Whole(edge));
            return Ok(());
        }
        let elements = bytes / layout.dtype().size();
        let cut = cut::cut_of_written(layout, elements).filter(|_| {
            layout.dtype().per_byte() == 1 && elements * layout.dtype().size() == bytes
        });
        let Some(cut) = cut else {
            return invalid(format!("{layout:?} is written of memory with {elements} elements"));
        };
        let part =
            self.view(View::Reshape(cut.taken.iter().map(|&(_, count, _)| count).collect()), edge)?;
        let contents = match self.contents.remove(&value) {
            Some(Contents::Whole(whole)) => Contents::Whole(self.replaced(whole, &cut, part)?),
            Some(Contents::Parts(mut parts)) => {
                parts.push((cut, part));
                self.joined(parts)?
            }
            None => Contents::Parts(vec![(cut, part)]),
        };
        self.contents.insert(value, contents);
        Ok(())
    }

    /// A tensor of which a part is replaced.
    fn replaced(&mut self, whole: Edge, cut: &Cut, part: Edge) -> Result<Edge> {
        if cut.taken.iter().any(|&(_, _, step)| step != 1)
            || self.graph.dtype(whole) != self.graph.dtype(part)
        {
            return invalid("a part of a tensor is written that is no slice of it".into());
        }
        let whole = self.view(View::Reshape(cut.grid.clone()), whole)?;
        let mut made = part;
        // What was made has the part's sizes up to this axis, and those of the whole behind it.
        for axis in (0..cut.grid.len()).rev() {
            let mut slab = whole;
            for (before, &(start, count, step)) in cut.taken[..axis].iter().enumerate() {
                slab = self.sliced(slab, before, start, count, step)?;
            }
            let (start, count, _) = cut.taken[axis];
            let (end, size) = (start + count, cut.grid[axis]);
            let mut joined: SmallVec<[Edge; 3]> = SmallVec::new();
            if start > 0 {
                joined.push(self.sliced(slab, axis, 0, start, 1)?);
            }
            joined.push(made);
            if end < size {
                joined.push(self.sliced(slab, axis, end, size - end, 1)?);
            }
            if joined.len() > 1 {
                made = self.graph.add_node(NodeOp::Concat { axis }, &joined)?[0];
            }
        }
        Ok(made)
    }

    fn sliced(
        &mut self,
        edge: Edge,
        axis: usize,
        start: usize,
        count: usize,
        step: usize,
    ) -> Result<Edge> {
        if count == self.graph.shape(edge)[axis] {
            return Ok(edge);
        }
        self.view(View::Slice { axis, start, count, step }, edge)
    }

    /// What parts of a tensor are together, once they are all there.
    fn joined(&mut self, mut parts: Vec<(Cut, Edge)>) -> Result<Contents> {
        let grid = parts[0].0.grid.clone();
        let differs = |axis: usize| parts.iter().any(|(cut, _)| cut.taken[axis].1 != grid[axis]);
        let is_one_grid = parts.iter().all(|(cut, _)| cut.grid == grid);
        let axis = (0..grid.len()).find(|&axis| is_one_grid && differs(axis));
        let Some(axis) = axis else { return Ok(Contents::Parts(parts)) };
        let found: usize = parts.iter().map(|(cut, _)| cut.taken[axis].1).sum();
        if found < grid[axis] {
            return Ok(Contents::Parts(parts));
        }
        parts.sort_by_key(|(cut, _)| cut.taken[axis].0);
        let mut next = 0;
        for (cut, _) in &parts {
            let (start, count, step) = cut.taken[axis];
            let is_slice = cut.taken.iter().enumerate().all(|(other, &(start, count, step))| {
                other == axis || (start, count, step) == (0, grid[other], 1)
            });
            if (start, step) != (next, 1) || !is_slice {
                return invalid("parts of a tensor are written that are no slices of it".into());
            }
            next += count;
        }
        let edges: SmallVec<[Edge; 4]> = parts.iter().map(|(_, edge)| *edge).collect();
        Ok(Contents::Whole(self.graph.add_node(NodeOp::Concat { axis }, &edges)?[0]))
    }
}

//! Where results are wanted, so that they are written there and not copied.

use std::collections::HashMap;

use millstream_core::{Layout, Op};

use crate::Result;
use crate::graph::{Edge, Graph, NodeOp, Source, inverse};
use crate::view::View;

/// Memory that several edges are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Root {
    /// An output of the plan.
    Output(usize),
    /// A concatenation.
    Edge(Edge),
}

/// For some edges the memory that they are wanted in, and how they lie there.
#[derive(Debug, Default)]
pub(super) struct Destinations(HashMap<Edge, (Root, Layout)>);

impl Destinations {
    /// The destinations of the edges of a graph.
    pub fn of(graph: &Graph) -> Result<Self> {
        let mut uses = vec![0usize; graph.edges().len()];
        let read = graph.nodes().iter().flat_map(|node| &node.inputs).chain(graph.outputs());
        read.for_each(|edge| uses[edge.index()] += 1);
        let mut destinations = Self::default();
        for (output, &edge) in graph.outputs().iter().enumerate() {
            let layout = graph.spec(edge).layout()?;
            // What others read too is read from the output.
            destinations.want(graph, &uses, edge, Root::Output(output), layout, true);
        }
        for node in graph.nodes().iter().rev() {
            let NodeOp::Concat { axis } = node.op else { continue };
            let whole = node.outputs[0];
            let (root, layout) = match destinations.0.get(&whole) {
                Some(found) => *found,
                None => {
                    let own = (Root::Edge(whole), graph.layout(whole)?);
                    destinations.0.insert(whole, own);
                    own
                }
            };
            let mut start = 0;
            for &input in &node.inputs {
                let count = graph.shape(input)[axis];
                let part = layout.slice(axis, start, count, 1)?;
                destinations.want(graph, &uses, input, root, part, false);
                start += count;
            }
        }
        for node in graph.nodes() {
            let NodeOp::View(view @ View::Reshape(_)) = &node.op else { continue };
            let source = node.inputs[0];
            if wants_order(graph, view, source)? {
                let layout = graph.spec(source).layout()?;
                destinations.want(graph, &uses, source, Root::Edge(source), layout, false);
            }
        }
        Ok(destinations)
    }

    /// Says that an edge is wanted somewhere, if it can be written there.
    fn want(
        &mut self,
        graph: &Graph,
        uses: &[usize],
        edge: Edge,
        root: Root,
        layout: Layout,
        shared: bool,
    ) {
        let (mut edge, mut layout, mut shared) = (edge, layout, shared);
        loop {
            let Source::Node(node, _) = *graph.source(edge) else { return };
            if self.0.contains_key(&edge) || (uses[edge.index()] > 1 && !shared) {
                return;
            }
            // What lies in another order than the whole is computed in its own, and copied.
            let last = matches!(root, Root::Edge(whole) if graph.is_channels_last(whole));
            if graph.is_channels_last(edge) != last {
                return;
            }
            let node = &graph.nodes()[node];
            let NodeOp::View(view) = &node.op else {
                self.0.insert(edge, (root, layout));
                return;
            };
            // A view of something else: that is written so that the view is right.
            let source = node.inputs[0];
            let Some(moved) = source_layout(view, graph.shape(source), &layout) else { return };
            (edge, layout, shared) = (source, moved, false);
        }
    }

    /// Where an edge is wanted.
    pub fn get(&self, edge: Edge) -> Option<&(Root, Layout)> {
        self.0.get(&edge)
    }
}

/// Whether a reshape needs a copy of results of attention whose axes were exchanged, as when the heads of a token are joined.
/// They are written in that order then.
fn wants_order(graph: &Graph, view: &View, edge: Edge) -> Result<bool> {
    let Source::Node(maker, _) = *graph.source(edge) else { return Ok(false) };
    let NodeOp::View(permute @ View::Permute(_)) = &graph.nodes()[maker].op else {
        return Ok(false);
    };
    let made = graph.nodes()[maker].inputs[0];
    let Source::Node(maker, _) = *graph.source(made) else { return Ok(false) };
    if !matches!(graph.nodes()[maker].op, NodeOp::Op(Op::Attention { .. })) {
        return Ok(false);
    }
    let moved = permute.layout(&graph.layout(made)?)?;
    Ok(moved.map(|layout| view.layout(&layout)).transpose()?.flatten().is_none())
}

/// How the source of a view must lie so that the view lies as wanted.
fn source_layout(view: &View, shape: &[usize], wanted: &Layout) -> Option<Layout> {
    match view {
        View::Reshape(_) => wanted.is_contiguous().then(|| wanted.reshape(shape).ok()).flatten(),
        View::Permute(order) => {
            // Kernels write rows: the last axis stays the last.
            if order.last() != Some(&(order.len().checked_sub(1)?)) {
                return None;
            }
            wanted.permute(&inverse(order)).ok()
        }
        View::Slice { .. } | View::Broadcast(_) | View::Bits(_) => None,
    }
}

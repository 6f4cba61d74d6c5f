//! Adding nodes to a graph. What is made of constants alone becomes a constant.

use millstream_core::{DType, Op, TensorSpec};
use smallvec::SmallVec;

use crate::constant::{Constant, Folder};
use crate::graph::{Edge, Graph, NodeOp};
use crate::view::View;
use crate::{Error, Result};

/// What is made of constants is a constant up to so many bytes; beyond, only up to so many times what it is made of: numbers
/// of 4 bits become numbers of 32.
const FOLDED_BYTES: usize = 1 << 14;
const FOLDED_GROWTH: usize = 8;

/// Adds nodes to a graph.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    pub graph: &'a mut Graph,
    pub folder: &'a Folder,
}

impl Builder<'_> {
    /// A node, or constants in its place.
    ///
    /// # Errors
    ///
    /// Inputs that do not fit.
    pub fn add(&mut self, op: NodeOp, inputs: &[Edge]) -> Result<SmallVec<[Edge; 1]>> {
        if let (NodeOp::View(view), [input]) = (&op, inputs) {
            let made = view.infer(&self.graph.spec(*input))?;
            if made == self.graph.spec(*input) && keeps_order(view) {
                return Ok(SmallVec::from_iter([*input]));
            }
            if let Some((joined, source)) = self.joined(view, *input) {
                return self.add(NodeOp::View(joined), &[source]);
            }
            let spec = self.graph.spec(*input);
            if let Some(wide) = unpacked(spec.dtype())
                && view.layout(&spec.layout()?)?.is_none()
            {
                let copy = |dtype| NodeOp::Op(Op::Copy { dtype, saturate: true });
                let unpacked = self.add_one(copy(wide), &[*input])?;
                let viewed = self.add_one(op, &[unpacked])?;
                return self.add(copy(spec.dtype()), &[viewed]);
            }
        }
        let constants: Option<SmallVec<[Constant; 4]>> =
            inputs.iter().map(|&edge| self.graph.constant(edge).cloned()).collect();
        if let Some(constants) = constants {
            let specs: SmallVec<[TensorSpec; 4]> =
                inputs.iter().map(|&edge| self.graph.spec(edge)).collect();
            let made = op.infer(&specs)?;
            made.iter().try_for_each(|spec| self.check_size(spec))?;
            if is_foldable(&op, &specs, &made) {
                let folded = self.folder.fold(&op, &constants, &made);
                return Ok(folded.into_iter().map(|made| self.graph.add_constant(made)).collect());
            }
        }
        let made = self.graph.add_node(op, inputs)?;
        made.iter().try_for_each(|&edge| self.check_size(&self.graph.spec(edge)))?;
        Ok(made)
    }

    /// # Errors
    ///
    /// A tensor that is larger than the model may have.
    fn check_size(&self, spec: &TensorSpec) -> Result<()> {
        let (bytes, limit) = (spec.layout()?.dense_bytes(), self.folder.tensor_bytes());
        if bytes > limit {
            let reason = format!("{spec} takes {bytes} bytes; a tensor may have {limit}");
            return Err(Error::Invalid { op: "graph", reason });
        }
        Ok(())
    }

    /// A view of a view as one view, where that is simple.
    fn joined(&self, view: &View, input: Edge) -> Option<(View, Edge)> {
        let (_, node) = self.graph.producer(input)?;
        let NodeOp::View(inner) = &node.op else { return None };
        let source = node.inputs[0];
        match (view, inner) {
            (View::Reshape(_), View::Reshape(_)) => Some((view.clone(), source)),
            (View::Permute(outer), View::Permute(inner)) => {
                Some((View::Permute(outer.iter().map(|&axis| inner[axis]).collect()), source))
            }
            _ => None,
        }
    }

    /// A node with one output.
    ///
    /// # Errors
    ///
    /// Inputs that do not fit.
    pub fn add_one(&mut self, op: NodeOp, inputs: &[Edge]) -> Result<Edge> {
        let outputs = self.add(op, inputs)?;
        outputs.first().copied().ok_or_else(|| {
            let reason = "the operation makes nothing".into();
            Error::Invalid { op: "graph", reason }
        })
    }
}

/// A type with bytes of its own that says all that a type says of which two share a byte.
fn unpacked(dtype: DType) -> Option<DType> {
    match dtype {
        DType::I4 => Some(DType::I8),
        DType::U4 => Some(DType::U8),
        packed if packed.per_byte() != 1 => Some(DType::F16),
        _ => None,
    }
}

/// Whether a view that keeps type and shape keeps the order of the elements too.
fn keeps_order(view: &View) -> bool {
    match view {
        View::Reshape(_) | View::Broadcast(_) | View::Slice { .. } | View::Bits(_) => true,
        View::Permute(order) => order.iter().enumerate().all(|(at, &axis)| at == axis),
    }
}

/// Whether a node that reads nothing but constants is computed once, and not by every call. What is large and cheaper to
/// make than to read is not.
fn is_foldable(op: &NodeOp, inputs: &[TensorSpec], outputs: &[TensorSpec]) -> bool {
    if let NodeOp::Op(Op::Random { .. } | Op::Timestamp | Op::Upload { .. } | Op::Download { .. }) =
        op
    {
        return false;
    }
    let sum = |specs: &[TensorSpec]| specs.iter().map(bytes).fold(0, usize::saturating_add);
    let (read, made) = (sum(inputs), sum(outputs));
    made <= FOLDED_BYTES || made <= read.saturating_mul(FOLDED_GROWTH)
}

fn bytes(spec: &TensorSpec) -> usize {
    spec.layout().map_or(usize::MAX, |layout| layout.dense_bytes())
}

//! Numbers that each call has one of, such as the scale that suits its data.
//!
//! A call by itself has such a number as a tensor of one element. A batch has one for each call, and repeats it along the axis of the
//! calls where it meets their parts. So the counterpart of every such edge of the batch, repeated or not, is the
//! tensor of one element. It may be read where an operation repeats a single element over its other inputs.

use millstream_core::{DynamicRange, Op};
use smallvec::SmallVec;

use super::cut::{Cut, Made, axis_in_reshape};
use super::{Obstacle, Share};
use crate::graph::{Edge, Node, NodeOp};
use crate::view::View;

/// Whether an operation computes each element from the elements at its place, and repeats inputs of one element.
pub(super) fn is_elementwise(op: &Op) -> bool {
    matches!(
        op,
        Op::Copy { .. }
            | Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Where
            | Op::Clip { .. }
            | Op::Chain { .. }
    )
}

/// Whether a number of its own may stand for what every call has at this input of an operation.
pub(super) fn takes_numbers(op: &Op, place: usize) -> bool {
    match op {
        // Zero points and scales of both sides.
        Op::MatMulInteger { a_zero, b_zero, rescale } => {
            let given = usize::from(*a_zero) + usize::from(*b_zero);
            (2..2 + given + 2 * usize::from(rescale.is_some())).contains(&place)
        }
        Op::Quantize { block: None, .. } | Op::Dequantize { block: None, .. } => place > 0,
        op => is_elementwise(op),
    }
}

/// A quantization with another axis of scales.
pub(super) fn with_axis(op: &Op, along: Option<u8>) -> Op {
    let mut op = op.clone();
    if let Op::Quantize { axis, .. } | Op::Dequantize { axis, .. } = &mut op {
        *axis = along;
    }
    op
}

impl Cut<'_> {
    /// A node that makes a number for each call, or another view of one. None if it is none.
    pub(super) fn number(&mut self, node: &Node) -> Result<Option<Made>, Obstacle> {
        let &[source] = &node.inputs[..] else { return Ok(None) };
        match &node.op {
            NodeOp::Op(Op::DynamicQuantize {
                range: DynamicRange::Parts { axis, parts },
                dtype,
            }) => {
                let share = Share::Parts(usize::from(*axis));
                if self.share(source) != share || *parts as usize != self.calls() {
                    let text = "it has other parts than the calls";
                    return Err(Obstacle::at(node, text.into()));
                }
                let alone = Op::DynamicQuantize { range: DynamicRange::Tensor, dtype: *dtype };
                let source = self.part(source)?;
                let made = self.add(node, NodeOp::Op(alone), &[source])?;
                for &number in &node.outputs[1..] {
                    self.note_number(number);
                }
                let mut shares = SmallVec::from_elem(Share::Parts(0), made.len());
                shares[0] = share;
                Ok(Some((made, shares)))
            }
            NodeOp::View(view) if self.is_number(source) => self.number_view(node, source, view),
            NodeOp::Op(_) | NodeOp::View(_) | NodeOp::Concat { .. } => Ok(None),
        }
    }

    /// A number that is repeated, or lies along another axis, stays the same one for each call.
    fn number_view(
        &mut self,
        node: &Node,
        source: Edge,
        view: &View,
    ) -> Result<Option<Made>, Obstacle> {
        let Share::Parts(axis) = self.share(source) else { return Ok(None) };
        let shape = self.batch().shape(source);
        let found = match view {
            View::Reshape(to) => axis_in_reshape(shape, axis, to, self.calls()),
            View::Broadcast(to) => Some(axis + to.len() - shape.len()),
            View::Permute(_) | View::Slice { .. } | View::Bits(_) => None,
        };
        let Some(axis) = found else {
            let text = format!("a {} of a number that each call has", node.op.name());
            return Err(Obstacle::at(node, text));
        };
        self.note_number(node.outputs[0]);
        let made = self.part(source)?;
        Ok(Some((SmallVec::from_iter([made]), SmallVec::from_iter([Share::Parts(axis)]))))
    }

    /// The operation for one call, if numbers that each call has may be read as this one reads them.
    pub(super) fn with_numbers(&self, node: &Node, op: &NodeOp) -> Result<NodeOp, Obstacle> {
        let numbers = |&place: &usize| self.is_number(node.inputs[place]);
        let places: SmallVec<[usize; 4]> = (0..node.inputs.len()).filter(numbers).collect();
        if places.is_empty() {
            return Ok(op.clone());
        }
        let refused = || {
            let text = format!("{} reads a number that each call has of its own", op.name());
            Err(Obstacle::at(node, text))
        };
        let NodeOp::Op(read_by) = op else { return refused() };
        if places.iter().any(|&place| !takes_numbers(read_by, place)) {
            return refused();
        }
        match read_by {
            Op::Quantize { .. } | Op::Dequantize { .. } => {
                // One scale for all is another operation than one for each index of an axis.
                let all = places.len() + 1 == node.inputs.len();
                if all { Ok(NodeOp::Op(with_axis(read_by, None))) } else { refused() }
            }
            _ => Ok(op.clone()),
        }
    }

    /// Looks at what a node made that reads numbers of calls: these are numbers again, or parts of the right shape.
    pub(super) fn check_numbers(
        &mut self,
        node: &Node,
        (made, shares): &Made,
    ) -> Result<(), Obstacle> {
        if !node.inputs.iter().any(|&input| self.is_number(input)) {
            return Ok(());
        }
        let one = |edge: Edge| self.batch().shape(edge).iter().all(|&size| size == 1);
        let single = node.inputs.iter().all(|&input| match self.share(input) {
            Share::Parts(_) => self.is_number(input),
            Share::Whole => one(input),
        });
        if single && matches!(&node.op, NodeOp::Op(op) if is_elementwise(op)) {
            node.outputs.iter().for_each(|&output| self.note_number(output));
            return Ok(());
        }
        for ((&output, &part), share) in node.outputs.iter().zip(made).zip(shares) {
            if !self.is_part(output, part, *share) {
                let text = "a number that each call has makes something of another shape";
                return Err(Obstacle::at(node, text.into()));
            }
        }
        Ok(())
    }
}

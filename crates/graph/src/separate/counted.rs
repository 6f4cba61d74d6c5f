//! Gathering by the number of a row.
//!
//! Exports of attention masks read `mask[row, column]` with a tensor of index pairs, in which the rows are counted: 0, 1, 2 … In a batch, a
//! call's rows are counted on from those of the calls before it, so it reads its own part of the mask, as it does alone.

use millstream_core::{DType, Op};
use smallvec::SmallVec;

use super::cut::{Cut, Made};
use super::{Obstacle, Share};
use crate::Array;
use crate::constant::Constant;
use crate::graph::{Edge, Node, NodeOp, Source};
use crate::view::View;

impl Cut<'_> {
    /// A gather by index tuples whose first index counts the rows of the calls. None if it is none.
    pub(super) fn gather_by_row(&mut self, node: &Node) -> Result<Option<Made>, Obstacle> {
        let NodeOp::Op(Op::GatherNd { batch_axes: 0 }) = node.op else { return Ok(None) };
        let &[source, indices] = &node.inputs[..] else { return Ok(None) };
        if self.share(source) != Share::Parts(0) || self.share(indices) != Share::Whole {
            return Ok(None);
        }
        let rows = self.batch().shape(source)[0] / self.calls();
        let leading = self.batch().shape(indices).len().saturating_sub(1);
        for axis in 0..leading {
            if let Some(indices) = self.tuples(indices, axis, rows, node)? {
                let source = self.part(source)?;
                let made = self.add(node, node.op.clone(), &[source, indices])?;
                return Ok(Some((made, SmallVec::from_iter([Share::Parts(axis)]))));
            }
        }
        Ok(None)
    }

    /// The index tuples of one call, if those of the batch are the same for every call but for the first index, which counts rows.
    fn tuples(
        &mut self,
        edge: Edge,
        axis: usize,
        rows: usize,
        reader: &Node,
    ) -> Result<Option<Edge>, Obstacle> {
        match self.batch().source(edge) {
            Source::Constant(constant) => {
                let tuple = self.batch().shape(edge).last().copied().unwrap_or(0);
                let part = self.counted_constant(constant, axis, rows, tuple);
                Ok(part.map(|part| self.add_constant(part)))
            }
            &Source::Node(node, _) => {
                let node = self.batch().nodes()[node].clone();
                let last = self.batch().shape(edge).len() - 1;
                let (NodeOp::Concat { axis: joined }, [first, others @ ..]) =
                    (&node.op, &node.inputs[..])
                else {
                    return Ok(None);
                };
                if *joined != last {
                    return Ok(None);
                }
                let Some(first) = self.counted(*first, axis, rows)? else { return Ok(None) };
                let mut parts: SmallVec<[Edge; 4]> = SmallVec::from_iter([first]);
                for &other in others {
                    parts.push(match self.batch().shape(other)[axis] {
                        1 => self.part(other)?,
                        _ => self.repeated(other, axis, reader)?,
                    });
                }
                Ok(self.add(&node, node.op.clone(), &parts)?.first().copied())
            }
            Source::Input(_) => Ok(None),
        }
    }

    /// Numbers of one call, if those of the batch count its rows.
    fn counted(&mut self, edge: Edge, axis: usize, rows: usize) -> Result<Option<Edge>, Obstacle> {
        match self.batch().source(edge) {
            Source::Constant(constant) => {
                let part = self.counted_constant(constant, axis, rows, 1);
                Ok(part.map(|part| self.add_constant(part)))
            }
            &Source::Node(node, _) => {
                let node = self.batch().nodes()[node].clone();
                let NodeOp::View(View::Broadcast(shape)) = &node.op else { return Ok(None) };
                let source = node.inputs[0];
                let added = shape.len() - self.batch().shape(source).len();
                let Some(inner) = axis.checked_sub(added) else { return Ok(None) };
                // A view of a view is one view, so this ends at once.
                if !matches!(self.batch().source(source), Source::Constant(_)) {
                    return Ok(None);
                }
                let Some(part) = self.counted(source, inner, rows)? else { return Ok(None) };
                let Some(sized) = self.sized(&node.op, axis) else { return Ok(None) };
                Ok(self.add(&node, sized, &[part])?.first().copied())
            }
            Source::Input(_) => Ok(None),
        }
    }

    /// The part of a constant for the first call, if that of each later call is the same but for the first of every `tuple`
    /// numbers, which is larger by the rows of the calls before. It names a row of its own call only.
    fn counted_constant(
        &self,
        constant: &Constant,
        axis: usize,
        rows: usize,
        tuple: usize,
    ) -> Option<Array> {
        let spec = constant.spec();
        let (shape, calls) = (spec.shape(), self.calls());
        let size = *shape.get(axis)?;
        if spec.dtype() != DType::I64 || size % calls != 0 || tuple == 0 {
            return None;
        }
        if spec.layout().ok()?.dense_bytes() > super::cut::COMPARED_BYTES {
            return None;
        }
        let numbers = constant.array(self.folder()).ok()?.to_i64s().ok()?;
        let inner: usize = shape[axis + 1..].iter().product();
        let part = size / calls * inner;
        let mut own = Vec::with_capacity(numbers.len() / calls);
        for all in numbers.chunks_exact(size * inner) {
            let first = &all[..part];
            for (call, numbers) in all.chunks_exact(part).enumerate() {
                let before = i64::try_from(call * rows).ok()?;
                for (at, (number, first)) in numbers.iter().zip(first).enumerate() {
                    let counts = at % tuple == 0;
                    let names_own = !counts || usize::try_from(*first).is_ok_and(|row| row < rows);
                    let expected = if counts { first.checked_add(before)? } else { *first };
                    if *number != expected || !names_own {
                        return None;
                    }
                }
            }
            own.extend_from_slice(first);
        }
        let mut shape = shape.to_vec();
        shape[axis] = size / calls;
        Array::from_slice(&own, &shape).ok()
    }
}

//! Choosing elements by index.
//!
//! Indices are `i32` or `i64`; a negative one counts from the end. One that is out of range is found by
//! the device, and reported by the call that waits for the result.

use millstream_core::{Command, Op, ScatterReduction};

use super::{OpRecorder, Tensor};
use crate::error::invalid;
use crate::{Axis, Result};

impl Tensor {
    /// Single elements along an axis: `out[i][j] = self[index[i][j]][j]` for axis 0.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type or a shape that does not fit, or no memory.
    pub fn gather(&self, axis: impl Axis, indices: &Tensor) -> Result<Self> {
        let axis = axis.resolve("gather", self.rank())? as u8;
        OpRecorder::new("gather", &self.device())?
            .apply(Op::GatherElements { axis }, &[self, indices])
    }

    /// Whole slices along an axis, in the order of a vector of indices.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type or rank, or no memory.
    pub fn index_select(&self, axis: impl Axis, indices: &Tensor) -> Result<Self> {
        let axis = axis.resolve("index_select", self.rank())? as u8;
        if indices.rank() != 1 {
            let (shape, found) = (self.shape(), indices.shape());
            return invalid("index_select", format!("indices {found:?} of {shape:?}, need 1 axis"));
        }
        OpRecorder::new("index_select", &self.device())?
            .apply(Op::Gather { axis }, &[self, indices])
    }

    /// Rows of this table: the result has the shape of `ids` and then the table's axes but the first.
    ///
    /// # Errors
    ///
    /// A table without axes, ids of another type, or no memory.
    pub fn embedding(&self, ids: &Tensor) -> Result<Self> {
        OpRecorder::new("embedding", &self.device())?.apply(Op::Embedding, &[self, ids])
    }

    /// This tensor with single elements along an axis replaced: `out[index[i][j]][j] = source[i][j]` for
    /// axis 0, or combined with what is there.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type, shapes that do not fit, or no memory.
    pub fn scatter(
        &self,
        axis: impl Axis,
        indices: &Tensor,
        source: &Tensor,
        reduction: ScatterReduction,
    ) -> Result<Self> {
        let axis = axis.resolve("scatter", self.rank())? as u8;
        let op = Op::ScatterElements { axis, reduction };
        OpRecorder::new("scatter", &self.device())?.apply(op, &[self, indices, source])
    }

    /// The `count` largest (or smallest) elements along an axis from the best on, and their indices.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, more elements than there are, `bool`, or no memory.
    pub fn topk(&self, count: usize, axis: impl Axis, largest: bool) -> Result<(Self, Self)> {
        let axis = axis.resolve("topk", self.rank())? as u8;
        let op = Op::TopK { axis, k: count, largest, sorted: true };
        let recorder = OpRecorder::new("topk", &self.device())?;
        let made = recorder.infer(&op, &[self])?;
        let (values, indices) = (recorder.place(&made[0])?, recorder.place(&made[1])?);
        let outputs = [values.operand(), indices.operand()];
        recorder.record(Command::new(op, outputs, [self.operand()]))?;
        Ok((values, indices))
    }
}

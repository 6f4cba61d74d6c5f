//! Choosing elements by index.
//!
//! Indices are `i32` or `i64`; a negative one counts from the end. One that is out of range is found by
//! the device, and reported by the call that waits for the result.

use millstream_core::{Command, DType, ScatterReduction};

use super::{Recorder, Tensor};
use crate::error::invalid;
use crate::{Axis, Result};

impl Tensor {
    /// Single elements along an axis: `out[i][j] = self[index[i][j]][j]` for axis 0.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type or a shape that does not fit, or no memory.
    pub fn gather(&self, axis: impl Axis, indices: &Tensor) -> Result<Self> {
        let axis = axis.resolve("gather", self.rank())?;
        let recorder = Recorder::new("gather", &self.device())?;
        let result = recorder.output(self.dtype(), indices.shape())?;
        recorder.record(Command::gather_elements(
            result.operand(),
            self.operand(),
            indices.operand(),
            axis,
        ))?;
        Ok(result)
    }

    /// Whole slices along an axis, in the order of a vector of indices.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type or rank, or no memory.
    pub fn index_select(&self, axis: impl Axis, indices: &Tensor) -> Result<Self> {
        let axis = axis.resolve("index_select", self.rank())?;
        if indices.rank() != 1 {
            let (shape, found) = (self.shape(), indices.shape());
            return invalid("index_select", format!("indices {found:?} of {shape:?}, need 1 axis"));
        }
        let mut shape = self.shape().to_vec();
        shape[axis] = indices.elements();
        let recorder = Recorder::new("index_select", &self.device())?;
        let result = recorder.output(self.dtype(), &shape)?;
        recorder.record(Command::gather(
            result.operand(),
            self.operand(),
            indices.operand(),
            axis,
        ))?;
        Ok(result)
    }

    /// Rows of this table: the result has the shape of `ids` and then the table's axes but the first.
    ///
    /// # Errors
    ///
    /// A table without axes, ids of another type, or no memory.
    pub fn embedding(&self, ids: &Tensor) -> Result<Self> {
        let Some(row) = self.shape().get(1..) else {
            return invalid("embedding", "a table without axes".into());
        };
        let shape = [ids.shape(), row].concat();
        let recorder = Recorder::new("embedding", &self.device())?;
        let result = recorder.output(self.dtype(), &shape)?;
        let (table, ids) = (self.operand(), ids.operand());
        recorder.record(Command::embedding(result.operand(), table, ids))?;
        Ok(result)
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
        let axis = axis.resolve("scatter", self.rank())?;
        let recorder = Recorder::new("scatter", &self.device())?;
        let result = recorder.output(self.dtype(), self.shape())?;
        recorder.record(Command::scatter_elements(
            result.operand(),
            self.operand(),
            indices.operand(),
            source.operand(),
            axis,
            reduction,
        ))?;
        Ok(result)
    }

    /// The `count` largest (or smallest) elements along an axis from the best on, and their indices.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, more elements than there are, `bool`, or no memory.
    pub fn topk(&self, count: usize, axis: impl Axis, largest: bool) -> Result<(Self, Self)> {
        let axis = axis.resolve("topk", self.rank())?;
        let mut shape = self.shape().to_vec();
        if count > shape[axis] {
            return invalid("topk", format!("{count} of axis {axis} of shape {shape:?}"));
        }
        shape[axis] = count;
        let recorder = Recorder::new("topk", &self.device())?;
        let values = recorder.output(self.dtype(), &shape)?;
        let indices = recorder.output(DType::I64, &shape)?;
        recorder.record(Command::top_k(
            values.operand(),
            indices.operand(),
            self.operand(),
            axis,
            largest,
            true,
        ))?;
        Ok((values, indices))
    }
}

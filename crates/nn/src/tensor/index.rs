//! Choosing elements by index.
//!
//! Indices are `i32` or `i64`; a negative one counts from the end. The device finds those that are out of range, and the
//! call that waits for the result reports them.

use millstream_core::{Command, Op, ScatterReduction};

use super::{OpRecorder, Tensor};
use crate::error::invalid;
use crate::{Axis, Result};

impl Tensor {
    /// Single elements along an axis: `out[i][j] = self[index[i][j]][j]` for axis 0.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1i64, 2], [3, 4]], &Device::cpu()?)?;
    /// let indices = Tensor::new(&[[1i64], [0]], &Device::cpu()?)?;
    /// assert_eq!(a.gather(1, &indices)?.to_vec::<i64>()?, [2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type or a shape that does not fit, or no memory.
    pub fn gather(&self, axis: impl Axis, indices: &Tensor) -> Result<Self> {
        let axis = axis.resolve("gather", self.rank())? as u8;
        OpRecorder::new("gather", &self.device())?
            .apply(Op::GatherElements { axis }, &[self, indices])
    }

    /// Slices along an axis, in the order of a tensor of indices with one axis.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1i64, 2], [3, 4], [5, 6]], &Device::cpu()?)?;
    /// let rows = Tensor::new(&[2i64, 0], &Device::cpu()?)?;
    /// assert_eq!(a.index_select(0, &rows)?.to_vec2::<i64>()?, [[5, 6], [1, 2]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type or rank, or no memory.
    #[doc(alias = "take")]
    pub fn index_select(&self, axis: impl Axis, indices: &Tensor) -> Result<Self> {
        let axis = axis.resolve("index_select", self.rank())? as u8;
        if indices.rank() != 1 {
            let found = indices.shape();
            return invalid(
                "index_select",
                format!("indices of shape {found:?}, but it takes 1 axis"),
            );
        }
        OpRecorder::new("index_select", &self.device())?
            .apply(Op::Gather { axis }, &[self, indices])
    }

    /// Looks up rows of this table. The result has the shape of `ids`, followed by the table's axes without the first.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let table = Tensor::new(&[[0.0f32, 0.1], [1.0, 1.1]], &Device::cpu()?)?;
    /// let ids = Tensor::new(&[1i64, 0, 1], &Device::cpu()?)?;
    /// assert_eq!(table.embedding(&ids)?.to_vec2::<f32>()?, [[1.0, 1.1], [0.0, 0.1], [1.0, 1.1]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A table without axes, ids of another type, or no memory.
    pub fn embedding(&self, ids: &Tensor) -> Result<Self> {
        OpRecorder::new("embedding", &self.device())?.apply(Op::Embedding, &[self, ids])
    }

    /// This tensor with some elements replaced: `out[index[i][j]][j] = source[i][j]` for axis 0. With a reduction,
    /// the old and the new element are combined, as in PyTorch's `scatter_add`.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::command::ScatterReduction;
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[3], DType::F32, &Device::cpu()?)?;
    /// let indices = Tensor::new(&[2i64, 2], &Device::cpu()?)?;
    /// let source = Tensor::new(&[1.0f32, 5.0], &Device::cpu()?)?;
    /// let sums = a.scatter(0, &indices, &source, ScatterReduction::Add)?;
    /// assert_eq!(sums.to_vec::<f32>()?, [0.0, 0.0, 6.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type, shapes that do not fit, or no memory.
    #[doc(alias = "scatter_add")]
    #[doc(alias = "index_add")]
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

    /// The `count` largest elements along an axis, or the smallest if not `largest`, in order, and their indices.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[3.0f32, 9.0, 5.0], &Device::cpu()?)?;
    /// let (values, places) = a.topk(2, 0, true)?;
    /// assert_eq!(values.to_vec::<f32>()?, [9.0, 5.0]);
    /// assert_eq!(places.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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

//! Joining tensors, and padding them.

use millstream_core::{Command, MAX_RANK, Op, PadMode, PadParams};

use super::{OpRecorder, Tensor};
use crate::error::{invalid, named, shown};
use crate::{Axis, Result};

impl Tensor {
    /// Joins tensors along an axis.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1i64, 2]], &Device::cpu()?)?;
    /// assert_eq!(Tensor::cat(&[&a, &a], 0)?.to_vec2::<i64>()?, [[1, 2], [1, 2]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// No tensors, shapes that differ on other axes, types that differ, or no memory.
    #[doc(alias = "concat")]
    #[doc(alias = "concatenate")]
    pub fn cat<T: AsRef<Tensor>>(tensors: &[T], axis: impl Axis) -> Result<Self> {
        let Some(first) = tensors.first().map(AsRef::as_ref) else {
            return invalid("cat", "no tensors".into());
        };
        let axis = axis.resolve("cat", first.rank())?;
        let mut shape = first.shape().to_vec();
        shape[axis] = 0;
        for tensor in tensors.iter().map(AsRef::as_ref) {
            let fits = tensor.rank() == first.rank()
                && (0..shape.len()).all(|at| at == axis || tensor.shape()[at] == shape[at]);
            if !fits || tensor.dtype() != first.dtype() {
                let (one, other) = (shown(first), shown(tensor));
                return invalid(
                    "cat",
                    format!("{one} and {other} differ in more than the size of axis {axis}"),
                );
            }
            shape[axis] = shape[axis].saturating_add(tensor.shape()[axis]);
        }
        let recorder = OpRecorder::new("cat", &first.device())?;
        let result = recorder.output(first.dtype(), &shape)?;
        let mut start = 0;
        for tensor in tensors.iter().map(AsRef::as_ref) {
            let count = tensor.shape()[axis];
            let place = result.layout.slice(axis, start, count, 1);
            let place = place.map_err(|error| named("cat", error))?;
            recorder.record(Command::copy(result.buffer.operand(place), tensor.operand()))?;
            start += count;
        }
        Ok(result)
    }

    /// Joins tensors of one shape along a new axis.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2], &Device::cpu()?)?;
    /// assert_eq!(Tensor::stack(&[&a, &a], 0)?.shape(), [2, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`cat`](Self::cat).
    pub fn stack<T: AsRef<Tensor>>(tensors: &[T], axis: impl Axis) -> Result<Self> {
        let rank = tensors.first().map_or(0, |tensor| tensor.as_ref().rank());
        let axis = axis.resolve("stack", rank + 1)?;
        let widened = tensors
            .iter()
            .map(|tensor| tensor.as_ref().unsqueeze(axis))
            .collect::<Result<Vec<_>>>()?;
        Self::cat(&widened, axis)
    }

    /// Adds elements before the first and after the last of each axis: one pair of widths per axis.
    /// Negative widths crop.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::command::PadMode;
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2], &Device::cpu()?)?;
    /// let padded = a.pad(&[(1, 2)], PadMode::Constant(0i64.into()))?;
    /// assert_eq!(padded.to_vec::<i64>()?, [0, 1, 2, 0, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Widths for another number of axes, more to crop than there is, or no memory.
    pub fn pad(&self, widths: &[(i64, i64)], mode: PadMode) -> Result<Self> {
        if widths.len() != self.rank() {
            return invalid("pad", format!("widths {widths:?} for shape {:?}", self.shape()));
        }
        let mut params = PadParams { mode, before: [0; MAX_RANK], after: [0; MAX_RANK] };
        for (axis, &(before, after)) in widths.iter().enumerate() {
            (params.before[axis], params.after[axis]) = (before, after);
        }
        let op = Op::Pad { params: Box::new(params) };
        OpRecorder::new("pad", &self.device())?.apply(op, &[self])
    }
}

impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

//! Sorting, repeating, masking and resizing.

use millstream_core::{CoordinateMode, DType, MAX_RANK, Op, ResizeMode, ResizeParams};
use smallvec::SmallVec;

use super::{OpRecorder, Tensor, TensorOrScalar};
use crate::error::invalid;
use crate::{Axis, AxisSet, Result};

type Sizes = SmallVec<[usize; MAX_RANK]>;

impl Tensor {
    /// The elements along an axis in order, and the index that each had before. Equal elements keep their order.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[3i64, 1, 2], &Device::cpu()?)?;
    /// let (sorted, indices) = a.sort(0, false)?;
    /// assert_eq!(sorted.to_vec::<i64>()?, [1, 2, 3]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 2, 0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist, `bool`, or no memory.
    pub fn sort(&self, axis: impl Axis, descending: bool) -> Result<(Self, Self)> {
        let axis = axis.resolve("sort", self.rank())?;
        self.topk(self.shape()[axis], axis, descending)
    }

    /// The indices that sort the elements along an axis, as [`sort`](Self::sort) gives them.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[3i64, 1, 2], &Device::cpu()?)?;
    /// assert_eq!(a.argsort(0, true)?.to_vec::<i64>()?, [0, 2, 1]); // descending
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`sort`](Self::sort).
    pub fn argsort(&self, axis: impl Axis, descending: bool) -> Result<Self> {
        Ok(self.sort(axis, descending)?.1)
    }

    /// The elements along some axes in the opposite order.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2, 3], &Device::cpu()?)?;
    /// assert_eq!(a.flip(0)?.to_vec::<i64>()?, [3, 2, 1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Axes that do not exist, or no memory.
    pub fn flip(&self, axes: impl AxisSet) -> Result<Self> {
        let axes = axes.axes("flip", self.rank())?;
        OpRecorder::new("flip", &self.device())?
            .apply(Op::Reverse { axes, batch_axis: None }, &[self])
    }

    /// Repeats the tensor `times[i]` times along axis `i`. With more numbers than axes, new axes are added at the
    /// front.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2], &Device::cpu()?)?;
    /// assert_eq!(a.repeat(&[2, 2])?.to_vec2::<i64>()?, [[1, 2, 1, 2], [1, 2, 1, 2]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fewer numbers than axes, too many axes, or no memory.
    #[doc(alias = "tile")]
    pub fn repeat(&self, times: &[usize]) -> Result<Self> {
        let Some(added) = times.len().checked_sub(self.rank()) else {
            return invalid("repeat", format!("{times:?} times shape {:?}", self.shape()));
        };
        let mut current = self.clone();
        for _ in 0..added {
            current = current.unsqueeze(0)?;
        }
        for (axis, &times) in times.iter().enumerate() {
            if times == 1 {
                continue;
            }
            // A new axis in front of it holds the repeats; then both become one.
            let mut sizes = Sizes::from_slice(current.shape());
            sizes.insert(axis, times);
            let repeated = current.unsqueeze(axis)?.broadcast_to(&sizes)?;
            current = repeated.flatten(axis, axis + 1)?;
        }
        // An axis of size 1 is still repeated by a stride of 0: write it out.
        current.contiguous()
    }

    /// The elements, with `value` where the mask is true.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1.0f32, -2.0, 3.0], &Device::cpu()?)?;
    /// assert_eq!(a.masked_fill(&a.lt(0.0)?, 0.0)?.to_vec::<f32>()?, [1.0, 0.0, 3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A mask that is not `bool` or does not broadcast with the tensor, or no memory.
    pub fn masked_fill(&self, mask: &Tensor, value: impl TensorOrScalar) -> Result<Self> {
        mask.logical_not()?.where_cond(self, value)
    }

    /// The last two axes with zeros above the diagonal; the diagonal may be moved up (positive) or down.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::ones(&[2, 2], DType::I64, &Device::cpu()?)?;
    /// assert_eq!(a.tril(0)?.to_vec2::<i64>()?, [[1, 0], [1, 1]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fewer than two axes, or no memory.
    pub fn tril(&self, diagonal: i64) -> Result<Self> {
        let (row, column) = self.places("tril")?;
        column.le(&row.add(diagonal)?)?.where_cond(self, 0)
    }

    /// The last two axes with zeros below the diagonal; the diagonal may be moved up (positive) or down.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::ones(&[2, 2], DType::I64, &Device::cpu()?)?;
    /// assert_eq!(a.triu(1)?.to_vec2::<i64>()?, [[0, 1], [0, 0]]); // without the diagonal
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fewer than two axes, or no memory.
    pub fn triu(&self, diagonal: i64) -> Result<Self> {
        let (row, column) = self.places("triu")?;
        column.ge(&row.add(diagonal)?)?.where_cond(self, 0)
    }

    /// The indices of rows, as a column, and of columns.
    fn places(&self, op: &'static str) -> Result<(Self, Self)> {
        let &[.., rows, columns] = self.shape() else {
            return invalid(op, format!("shape {:?}, need 2 axes", self.shape()));
        };
        let places = |count| Tensor::arange(0.0, count as f64, 1.0, DType::I64, &self.device());
        Ok((places(rows)?.unsqueeze(1)?, places(columns)?))
    }

    /// Adds a last axis of size `classes`, as `i64`: 1 at the index that the element gives, else 0. An element outside
    /// `0..classes` gives zeros.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[2i64, 0], &Device::cpu()?)?;
    /// assert_eq!(a.one_hot(3)?.to_vec2::<i64>()?, [[0, 0, 1], [1, 0, 0]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A type that is not an integer, or no memory.
    pub fn one_hot(&self, classes: usize) -> Result<Self> {
        if !self.dtype().is_int() {
            return invalid("one_hot", format!("{} is not an integer type", self.dtype()));
        }
        let names = Tensor::arange(0.0, classes as f64, 1.0, self.dtype(), &self.device())?;
        self.unsqueeze(-1)?.eq(&names)?.to_dtype(DType::I64)
    }

    /// Resizes the last axes with interpolation. `sizes` is `[height, width]` for `[batch, channels, height, width]`.
    /// PyTorch calls it `interpolate`.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::command::ResizeMode;
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let image = Tensor::ones(&[1, 3, 8, 8], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(image.resize(&[16, 12], ResizeMode::Linear, false)?.shape(), [1, 3, 16, 12]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// More sizes than axes, a type that the mode has no meaning for, or no memory.
    #[doc(alias = "interpolate")]
    pub fn resize(&self, sizes: &[usize], mode: ResizeMode, align_corners: bool) -> Result<Self> {
        let Some(first) = self.rank().checked_sub(sizes.len()) else {
            return invalid("resize", format!("{sizes:?} for shape {:?}", self.shape()));
        };
        let coordinates = match (mode, align_corners) {
            (ResizeMode::Nearest(_), _) => CoordinateMode::Asymmetric,
            (_, true) => CoordinateMode::AlignCorners,
            (_, false) => CoordinateMode::HalfPixel,
        };
        let mut params = ResizeParams {
            mode,
            coordinates,
            scales: [1.0; MAX_RANK],
            sizes: [1; MAX_RANK],
            region: [(0.0, 1.0); MAX_RANK],
            extrapolation: 0.0,
            exclude_outside: false,
            antialias: false,
        };
        params.sizes[..self.rank()].copy_from_slice(self.shape());
        for (axis, &size) in (first..).zip(sizes) {
            params.sizes[axis] = size;
            params.scales[axis] = size as f64 / self.shape()[axis] as f64;
        }
        let op = Op::Resize { params: Box::new(params) };
        OpRecorder::new("resize", &self.device())?.apply(op, &[self])
    }
}

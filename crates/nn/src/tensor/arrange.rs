//! Sorting, repeating, masking and resizing.

use millstream_core::{CoordinateMode, DType, MAX_RANK, Op, ResizeMode, ResizeParams};
use smallvec::SmallVec;

use super::{OpRecorder, Tensor, TensorOrScalar};
use crate::error::invalid;
use crate::{Axis, AxisSet, Result};

type Sizes = SmallVec<[usize; MAX_RANK]>;

impl Tensor {
    /// The elements along an axis in order, and the indices that they had. Equal ones keep their order.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, `bool`, or no memory.
    pub fn sort(&self, axis: impl Axis, descending: bool) -> Result<(Self, Self)> {
        let axis = axis.resolve("sort", self.rank())?;
        self.topk(self.shape()[axis], axis, descending)
    }

    /// The indices that put the elements along an axis in order; as [`sort`](Self::sort) gives them.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn argsort(&self, axis: impl Axis, descending: bool) -> Result<Self> {
        Ok(self.sort(axis, descending)?.1)
    }

    /// The elements along some axes in the opposite order.
    ///
    /// # Errors
    ///
    /// Axes that do not exist, or no memory.
    pub fn flip(&self, axes: impl AxisSet) -> Result<Self> {
        let axes = axes.axes("flip", self.rank())?;
        OpRecorder::new("flip", &self.device())?
            .apply(Op::Reverse { axes, batch_axis: None }, &[self])
    }

    /// The tensor again and again: `times[i]` times along axis `i`. There may be more numbers than axes, for new
    /// axes at the front.
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
            // One axis of repeats before it, then both in one.
            let mut sizes = Sizes::from_slice(current.shape());
            sizes.insert(axis, times);
            let repeated = current.unsqueeze(axis)?.broadcast_to(&sizes)?;
            current = repeated.flatten(axis, axis + 1)?;
        }
        // What is new is never a view of what was given.
        current.contiguous()
    }

    /// The elements with those replaced by a number for which the mask holds.
    ///
    /// # Errors
    ///
    /// A mask that is not `bool` or does not broadcast with the tensor, or no memory.
    pub fn masked_fill(&self, mask: &Tensor, value: impl TensorOrScalar) -> Result<Self> {
        mask.logical_not()?.where_cond(self, value)
    }

    /// The last two axes with zeros above the diagonal; the diagonal may be moved up (positive) or down.
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
    /// # Errors
    ///
    /// Fewer than two axes, or no memory.
    pub fn triu(&self, diagonal: i64) -> Result<Self> {
        let (row, column) = self.places("triu")?;
        column.ge(&row.add(diagonal)?)?.where_cond(self, 0)
    }

    /// The numbers of rows, as a column, and of columns.
    fn places(&self, op: &'static str) -> Result<(Self, Self)> {
        let &[.., rows, columns] = self.shape() else {
            return invalid(op, format!("shape {:?}, need 2 axes", self.shape()));
        };
        let places = |count| Tensor::arange(0.0, count as f64, 1.0, DType::I64, &self.device());
        Ok((places(rows)?.unsqueeze(1)?, places(columns)?))
    }

    /// A new last axis of that many classes: 1 at the class that the element names, else 0, as `i64`. An element that
    /// names no class gives zeros.
    ///
    /// # Errors
    ///
    /// A type that is not an integer, or no memory.
    pub fn one_hot(&self, classes: usize) -> Result<Self> {
        if !self.dtype().is_int() {
            return invalid("one_hot", format!("{} names no class", self.dtype()));
        }
        let names = Tensor::arange(0.0, classes as f64, 1.0, self.dtype(), &self.device())?;
        self.unsqueeze(-1)?.eq(&names)?.to_dtype(DType::I64)
    }

    /// Other sizes for the last axes, with interpolation: of `[batch, channels, height, width]` to `[height, width]`.
    /// PyTorch calls it `interpolate`.
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

//! Views: other layouts over the same memory. None of these copies.

use millstream_core::{Layout, MAX_RANK};
use smallvec::SmallVec;

use super::Tensor;
use crate::error::{invalid, named};
use crate::{Axis, Index, IndexRange, Result, Size};

type Sizes = SmallVec<[usize; MAX_RANK]>;

impl Tensor {
    fn view(&self, op: &'static str, layout: Result<Layout>) -> Result<Self> {
        Ok(self.viewed(layout.map_err(|error| named(op, error))?))
    }

    /// An axis and its size, for messages.
    #[cold]
    fn along(&self, axis: usize) -> String {
        let shape = self.shape();
        format!("axis {axis} of shape {shape:?} has size {}", shape[axis])
    }

    /// Any layout over the same memory, beginning `offset` elements later.
    pub(crate) fn strided(
        &self,
        op: &'static str,
        shape: &[usize],
        strides: &[usize],
        offset: usize,
    ) -> Result<Self> {
        let layout = Layout::strided(self.dtype(), shape, strides, self.layout.offset())
            .and_then(|layout| layout.shifted(offset));
        self.view(op, layout)
    }

    /// Swaps two axes.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3, 4], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.transpose(-1, -2)?.shape(), [2, 4, 3]); // a view: nothing is copied
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist.
    #[doc(alias = "swapaxes")]
    pub fn transpose(&self, first: impl Axis, second: impl Axis) -> Result<Self> {
        let first = first.resolve("transpose", self.rank())?;
        let second = second.resolve("transpose", self.rank())?;
        self.view("transpose", self.layout.transpose(first, second))
    }

    /// Swaps the last two axes.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1i64, 2, 3], [4, 5, 6]], &Device::cpu()?)?;
    /// assert_eq!(a.t()?.to_vec2::<i64>()?, [[1, 4], [2, 5], [3, 6]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fewer than two axes.
    #[doc(alias = "mT")]
    pub fn t(&self) -> Result<Self> {
        self.transpose(-2, -1)
    }

    /// The axes in another order: axis `i` of the result is axis `order[i]` of this tensor.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 3, 4], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.permute(&[2, 0, 1])?.shape(), [4, 2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An order that does not name every axis once.
    pub fn permute<A: Axis>(&self, order: &[A]) -> Result<Self> {
        let order = order
            .iter()
            .map(|axis| axis.resolve("permute", self.rank()))
            .collect::<Result<Sizes>>()?;
        self.view("permute", self.layout.permute(&order))
    }

    /// `count` indices of an axis, beginning at `start`; a negative start counts from the end.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2, 3, 4], &Device::cpu()?)?;
    /// assert_eq!(a.narrow(0, 1, 2)?.to_vec::<i64>()?, [2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis or indices that do not exist.
    pub fn narrow(&self, axis: impl Axis, start: impl Index, count: usize) -> Result<Self> {
        let axis = axis.resolve("narrow", self.rank())?;
        let place = start.on(self.shape()[axis]);
        match place.checked_add(count).filter(|&end| end <= self.shape()[axis]) {
            Some(_) => self.view("narrow", self.layout.slice(axis, place, count, 1)),
            None => {
                let (start, there) = (start.index(), self.along(axis));
                invalid("narrow", format!("{count} elements from {start} on, but {there}"))
            }
        }
    }

    /// A range of an axis, as in `slice(0, 2..)` or `slice(1, -3..-1)`; negative numbers count from the end.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1i64, 2, 3], [4, 5, 6]], &Device::cpu()?)?;
    /// assert_eq!(a.slice(1, -2..)?.to_vec2::<i64>()?, [[2, 3], [5, 6]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis or indices that do not exist.
    pub fn slice(&self, axis: impl Axis, range: impl IndexRange) -> Result<Self> {
        self.slice_by(axis, range, 1)
    }

    /// Every `step`-th index of a range of an axis.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1i64, 2, 3], [4, 5, 6]], &Device::cpu()?)?;
    /// assert_eq!(a.slice_by(1, .., 2)?.to_vec2::<i64>()?, [[1, 3], [4, 6]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist, a step of 0, or indices out of range.
    pub fn slice_by(&self, axis: impl Axis, range: impl IndexRange, step: usize) -> Result<Self> {
        let axis = axis.resolve("slice", self.rank())?;
        let size = self.shape()[axis];
        let (start, end) = range.on(size);
        if start > end || end > size || step == 0 {
            let (range, there) = (range.text(), self.along(axis));
            let by = if step == 1 { String::new() } else { format!(" by {step}") };
            return invalid("slice", format!("range {range}{by}, but {there}"));
        }
        let count = (end - start).div_ceil(step);
        // With one index there is no next one, so a large step is no error.
        let step = if count > 1 { step } else { 1 };
        self.view("slice", self.layout.slice(axis, start, count, step))
    }

    /// One index of an axis, without that axis; a negative index counts from the end.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1i64, 2, 3], [4, 5, 6]], &Device::cpu()?)?;
    /// assert_eq!(a.select(0, -1)?.to_vec::<i64>()?, [4, 5, 6]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis or an index that does not exist.
    pub fn select(&self, axis: impl Axis, index: impl Index) -> Result<Self> {
        let axis = axis.resolve("select", self.rank())?;
        let place = index.on(self.shape()[axis]);
        if place >= self.shape()[axis] {
            let (index, there) = (index.index(), self.along(axis));
            return invalid("select", format!("index {index}, but {there}"));
        }
        self.view("select", self.layout.slice(axis, place, 1, 1))?.without(axis)
    }

    /// Removes an axis of size 1.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{DType, Device, Tensor};
    ///
    /// let a = Tensor::zeros(&[2, 1, 3], DType::F32, &Device::cpu()?)?;
    /// assert_eq!(a.squeeze(1)?.shape(), [2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or has another size.
    pub fn squeeze(&self, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("squeeze", self.rank())?;
        if self.shape()[axis] != 1 {
            return invalid("squeeze", format!("{}, not 1", self.along(axis)));
        }
        self.without(axis)
    }

    pub(super) fn without(&self, axis: usize) -> Result<Self> {
        let mut shape = Sizes::from_slice(self.shape());
        let mut strides = Sizes::from_slice(self.layout.strides());
        shape.remove(axis);
        strides.remove(axis);
        let layout = Layout::strided(self.dtype(), &shape, &strides, self.layout.offset());
        self.view("squeeze", layout)
    }

    /// Adds an axis of size 1 before the given one; -1 adds it at the end.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2], &Device::cpu()?)?;
    /// assert_eq!(a.unsqueeze(0)?.shape(), [1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis beyond the end, or too many axes.
    #[doc(alias = "expand_dims")]
    pub fn unsqueeze(&self, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("unsqueeze", self.rank() + 1)?;
        let mut shape = Sizes::from_slice(self.shape());
        let mut strides = Sizes::from_slice(self.layout.strides());
        shape.insert(axis, 1);
        strides.insert(axis, 0);
        let layout = Layout::strided(self.dtype(), &shape, &strides, self.layout.offset());
        self.view("unsqueeze", layout)
    }

    /// Expands axes of size 1, and adds leading axes, to get a shape.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[1i64, 2], &Device::cpu()?)?;
    /// assert_eq!(a.broadcast_to(&[2, 2])?.to_vec2::<i64>()?, [[1, 2], [1, 2]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An axis that is neither 1 nor the size asked for.
    #[doc(alias = "broadcast_as")]
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Self> {
        self.view("broadcast_to", self.layout.broadcast_to(shape))
    }

    /// As [`broadcast_to`](Self::broadcast_to), where -1 keeps the size of an axis.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    ///
    /// let a = Tensor::new(&[[1i64], [2]], &Device::cpu()?)?;
    /// assert_eq!(a.expand(&[-1, 3])?.to_vec2::<i64>()?, [[1, 1, 1], [2, 2, 2]]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`broadcast_to`](Self::broadcast_to); or -1 for a new axis.
    pub fn expand<S: Size>(&self, shape: &[S]) -> Result<Self> {
        let added = shape.len().saturating_sub(self.rank());
        let own =
            |axis: usize| axis.checked_sub(added).and_then(|at| self.shape().get(at)).copied();
        let sizes = shape.iter().enumerate().map(|(axis, size)| size.size().or_else(|| own(axis)));
        match sizes.collect::<Option<Sizes>>() {
            Some(sizes) => self.view("expand", self.layout.broadcast_to(&sizes)),
            None => invalid("expand", format!("-1 for a new axis before shape {:?}", self.shape())),
        }
    }
}

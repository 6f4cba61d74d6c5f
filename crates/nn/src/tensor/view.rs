//! Views: other layouts over the same memory. None of these copies.

use millstream_core::{Layout, MAX_RANK};
use smallvec::SmallVec;

use super::Tensor;
use crate::error::invalid;
use crate::{Axis, Error, Index, IndexRange, Result, Size};

/// Pieces that a tensor is split into; repeated axes have more indices than any list has room for.
const MAX_PIECES: usize = 1 << 20;

type Sizes = SmallVec<[usize; MAX_RANK]>;

impl Tensor {
    fn view(&self, op: &'static str, layout: Result<Layout>) -> Result<Self> {
        Ok(self.viewed(layout.map_err(|error| Error::named(op, error))?))
    }

    /// Any layout over the same memory, from `offset` elements behind the first on.
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
    /// # Errors
    ///
    /// An axis that does not exist.
    pub fn transpose(&self, first: impl Axis, second: impl Axis) -> Result<Self> {
        let first = first.resolve("transpose", self.rank())?;
        let second = second.resolve("transpose", self.rank())?;
        self.view("transpose", self.layout.transpose(first, second))
    }

    /// Swaps the last two axes.
    ///
    /// # Errors
    ///
    /// Fewer than two axes.
    pub fn t(&self) -> Result<Self> {
        self.transpose(-2, -1)
    }

    /// The axes in another order: axis `i` of the result is axis `order[i]` of this tensor.
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

    /// `count` indices of an axis from `start` on; a negative start counts from the end.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or indices that do not.
    pub fn narrow(&self, axis: impl Axis, start: impl Index, count: usize) -> Result<Self> {
        let axis = axis.resolve("narrow", self.rank())?;
        let place = start.on(self.shape()[axis]);
        match place.checked_add(count).filter(|&end| end <= self.shape()[axis]) {
            Some(_) => self.view("narrow", self.layout.slice(axis, place, count, 1)),
            None => {
                let (start, shape) = (start.index(), self.shape());
                invalid("narrow", format!("{count} from {start} on, on axis {axis} of {shape:?}"))
            }
        }
    }

    /// A range of an axis, as in `slice(0, 2..)` or `slice(1, -3..-1)`; negative numbers count from the end.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or indices that do not.
    pub fn slice(&self, axis: impl Axis, range: impl IndexRange) -> Result<Self> {
        self.slice_by(axis, range, 1)
    }

    /// Every `step`-th index of a range of an axis.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, a step of 0, or indices out of range.
    pub fn slice_by(&self, axis: impl Axis, range: impl IndexRange, step: usize) -> Result<Self> {
        let axis = axis.resolve("slice", self.rank())?;
        let size = self.shape()[axis];
        let (start, end) = range.on(size);
        if start > end || end > size || step == 0 {
            let (range, shape) = (range.text(), self.shape());
            return invalid(
                "slice",
                format!("{range} by {step} on axis {axis} of shape {shape:?}"),
            );
        }
        let count = (end - start).div_ceil(step);
        // One index has no next one, whatever the step.
        let step = if count > 1 { step } else { 1 };
        self.view("slice", self.layout.slice(axis, start, count, step))
    }

    /// One index of an axis, which vanishes; a negative one counts from the end.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or an index that does not.
    pub fn select(&self, axis: impl Axis, index: impl Index) -> Result<Self> {
        let axis = axis.resolve("select", self.rank())?;
        let place = index.on(self.shape()[axis]);
        if place >= self.shape()[axis] {
            let (index, shape) = (index.index(), self.shape());
            return invalid("select", format!("{index} on axis {axis} of shape {shape:?}"));
        }
        self.view("select", self.layout.slice(axis, place, 1, 1))?.without(axis)
    }

    /// Takes away an axis of size 1.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or has another size.
    pub fn squeeze(&self, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("squeeze", self.rank())?;
        if self.shape()[axis] != 1 {
            return invalid("squeeze", format!("axis {axis} of shape {:?} is not 1", self.shape()));
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
    /// # Errors
    ///
    /// An axis beyond the end, or too many axes.
    pub fn unsqueeze(&self, axis: impl Axis) -> Result<Self> {
        let axis = axis.resolve("unsqueeze", self.rank() + 1)?;
        let mut shape = Sizes::from_slice(self.shape());
        let mut strides = Sizes::from_slice(self.layout.strides());
        shape.insert(axis, 1);
        strides.insert(axis, 0);
        let layout = Layout::strided(self.dtype(), &shape, &strides, self.layout.offset());
        self.view("unsqueeze", layout)
    }

    /// Repeats axes of size 1, and adds leading axes, to have a shape.
    ///
    /// # Errors
    ///
    /// An axis that is neither 1 nor the size asked for.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Self> {
        self.view("broadcast_to", self.layout.broadcast_to(shape))
    }

    /// The same with sizes of which -1 stands for the size that the axis has.
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

    /// Pieces of at most `size` along an axis; the last may be smaller.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or a size of 0.
    pub fn split(&self, size: usize, axis: impl Axis) -> Result<Vec<Self>> {
        let axis = axis.resolve("split", self.rank())?;
        if size == 0 {
            return invalid("split", format!("shape {:?} in pieces of 0", self.shape()));
        }
        let total = self.shape()[axis];
        let pieces = total.div_ceil(size);
        if pieces > MAX_PIECES {
            let shape = self.shape();
            return invalid(
                "split",
                format!("shape {shape:?} in {pieces} pieces, above {MAX_PIECES}"),
            );
        }
        (0..total)
            .step_by(size)
            .map(|start| self.narrow(axis, start, size.min(total - start)))
            .collect()
    }

    /// At most `chunks` pieces of one size along an axis; the last may be smaller.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, or no chunks.
    pub fn chunk(&self, chunks: usize, axis: impl Axis) -> Result<Vec<Self>> {
        let axis = axis.resolve("chunk", self.rank())?;
        if chunks == 0 {
            return invalid("chunk", format!("shape {:?} in 0 chunks", self.shape()));
        }
        self.split(self.shape()[axis].div_ceil(chunks).max(1), axis)
    }
}

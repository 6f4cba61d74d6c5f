//! Where the elements of an operand lie in its buffer.

use std::fmt;

use crate::{DType, Error, Result};

/// The highest rank of an operand.
pub const MAX_RANK: usize = 8;

/// Shape, strides, offset and element type of one operand. Strides and offset count elements.
///
/// A layout is plain data of a fixed size. It says nothing about a buffer: whether it fits one is
/// checked when a [`Command`](crate::Command) is built.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    dtype: DType,
    rank: u8,
    offset: usize,
    shape: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
}

fn invalid(reason: String) -> Error {
    Error::InvalidLayout { reason }
}

impl Layout {
    /// A dense layout in row-major order.
    ///
    /// # Errors
    ///
    /// A rank above [`MAX_RANK`], or more elements than can be addressed.
    pub fn contiguous(dtype: DType, shape: &[usize]) -> Result<Self> {
        check_rank(shape.len())?;
        let mut layout = Self::scalar(dtype);
        layout.rank = shape.len() as u8;
        let mut step = 1usize;
        for (axis, &size) in shape.iter().enumerate().rev() {
            layout.shape[axis] = size;
            layout.strides[axis] = step;
            step = step.checked_mul(size.max(1)).ok_or_else(|| too_large(shape))?;
        }
        // The last element is the one before as many as there are.
        step.checked_mul(dtype.size())
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or_else(|| too_large(shape))?;
        Ok(layout)
    }

    /// A layout with one element and rank 0.
    pub fn scalar(dtype: DType) -> Self {
        Self { dtype, rank: 0, offset: 0, shape: [1; MAX_RANK], strides: [0; MAX_RANK] }
    }

    /// A layout with given strides and offset, counted in elements. A stride of 0 repeats.
    ///
    /// # Errors
    ///
    /// A rank above [`MAX_RANK`], shape and strides of different length, or an extent that cannot be
    /// addressed.
    pub fn strided(
        dtype: DType,
        shape: &[usize],
        strides: &[usize],
        offset: usize,
    ) -> Result<Self> {
        check_rank(shape.len())?;
        if shape.len() != strides.len() {
            return Err(invalid(format!("shape {shape:?} and strides {strides:?} differ in rank")));
        }
        let mut layout = Self {
            dtype,
            rank: shape.len() as u8,
            offset,
            shape: [1; MAX_RANK],
            strides: [0; MAX_RANK],
        };
        layout.shape[..shape.len()].copy_from_slice(shape);
        layout.strides[..shape.len()].copy_from_slice(strides);
        if layout.is_addressable() { Ok(layout) } else { Err(too_large(shape)) }
    }

    fn checked_extent(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        let mut last = self.offset;
        for axis in 0..self.rank() {
            last = last.checked_add((self.shape[axis] - 1).checked_mul(self.strides[axis])?)?;
        }
        let bytes = last.checked_add(1)?.checked_mul(self.dtype.size())?;
        (bytes <= isize::MAX as usize).then_some(bytes)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape[..self.rank()]
    }

    /// The distance, in elements, between neighbours along each axis.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.rank()]
    }

    /// The index, in elements, of the first element.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// Bytes that the elements would take if they lay densely.
    pub fn dense_bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }

    /// One past the last byte of a buffer that the layout touches; 0 when it is empty.
    pub fn extent_bytes(&self) -> usize {
        self.checked_extent().unwrap_or(0)
    }

    /// The first byte of a buffer that the layout touches.
    pub fn start_bytes(&self) -> usize {
        self.offset * self.dtype.size()
    }

    /// Whether the elements lie densely in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for axis in (0..self.rank()).rev() {
            if self.shape[axis] != 1 && self.strides[axis] != step {
                return self.is_empty();
            }
            step *= self.shape[axis];
        }
        true
    }

    /// Whether the elements fill all the bytes that the layout spans, in whatever order.
    pub(crate) fn is_dense(&self) -> bool {
        self.is_contiguous()
            || (self.is_injective()
                && self.dense_bytes() == self.extent_bytes().saturating_sub(self.start_bytes()))
    }

    /// Whether no two indices share an element, so that the layout can be written.
    ///
    /// The test is sufficient for every layout made by slicing and permuting a dense one.
    pub fn is_injective(&self) -> bool {
        // Most are, and need no order of axes to see it.
        if self.is_contiguous() {
            return true;
        }
        let mut axes: [usize; MAX_RANK] = std::array::from_fn(|axis| axis);
        let axes = &mut axes[..self.rank()];
        axes.sort_unstable_by_key(|&axis| self.strides[axis]);
        let mut reach = 0;
        for &axis in axes.iter().filter(|&&axis| self.shape[axis] > 1) {
            if self.strides[axis] <= reach {
                return false;
            }
            reach += (self.shape[axis] - 1) * self.strides[axis];
        }
        true
    }

    /// The same elements seen in another element type of the same size.
    pub fn with_dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// This layout repeated along axes of size 1, and along new leading axes, to have `shape`.
    ///
    /// # Errors
    ///
    /// An axis that is neither 1 nor the size asked for.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Self> {
        let mut result = *self;
        result.stretch(shape)?;
        Ok(result)
    }

    /// [`broadcast_to`](Self::broadcast_to) in place. Nothing is changed when it fails.
    pub(crate) fn stretch(&mut self, shape: &[usize]) -> Result<()> {
        if self.shape() == shape {
            return Ok(());
        }
        check_rank(shape.len())?;
        let fits = |(&own, &wanted): (&usize, &usize)| own == wanted || own == 1;
        let tail = shape.len().checked_sub(self.rank()).map(|added| &shape[added..]);
        if !tail.is_some_and(|tail| self.shape().iter().zip(tail).all(fits)) {
            let own = self.shape();
            return Err(invalid(format!("shape {own:?} does not broadcast to {shape:?}")));
        }
        let added = shape.len() - self.rank();
        let mut strides = [0; MAX_RANK];
        for axis in 0..self.rank() {
            let repeats = self.shape[axis] != shape[added + axis];
            strides[added + axis] = if repeats { 0 } else { self.strides[axis] };
        }
        let (old, old_strides) = (self.rank, std::mem::replace(&mut self.strides, strides));
        let old_shape = self.shape;
        self.rank = shape.len() as u8;
        self.shape[..shape.len()].copy_from_slice(shape);
        if self.is_addressable() {
            return Ok(());
        }
        (self.rank, self.shape, self.strides) = (old, old_shape, old_strides);
        Err(too_large(shape))
    }

    /// Whether its extent, and its elements if they lay densely, can be addressed.
    fn is_addressable(&self) -> bool {
        let product = |product: usize, &size: &usize| product.checked_mul(size.max(1));
        let dense = self.shape().iter().try_fold(self.dtype.size(), product);
        dense.is_some_and(|bytes| bytes <= isize::MAX as usize) && self.checked_extent().is_some()
    }

    /// The axes in another order: axis `i` of the result is axis `order[i]` of this layout.
    ///
    /// # Errors
    ///
    /// An order that does not name every axis once.
    pub fn permute(&self, order: &[usize]) -> Result<Self> {
        let mut seen = [false; MAX_RANK];
        let valid = order.len() == self.rank()
            && order
                .iter()
                .all(|&axis| axis < self.rank() && !std::mem::replace(&mut seen[axis], true));
        if !valid {
            return Err(invalid(format!("{order:?} is not an order of {} axes", self.rank())));
        }
        let mut result = *self;
        for (to, &from) in order.iter().enumerate() {
            result.shape[to] = self.shape[from];
            result.strides[to] = self.strides[from];
        }
        Ok(result)
    }

    /// Swaps two axes.
    ///
    /// # Errors
    ///
    /// An axis that does not exist.
    pub fn transpose(&self, first: usize, second: usize) -> Result<Self> {
        if first.max(second) >= self.rank() {
            return Err(invalid(format!("axes {first} and {second} of rank {}", self.rank())));
        }
        let mut result = *self;
        result.shape.swap(first, second);
        result.strides.swap(first, second);
        Ok(result)
    }

    /// Every `step`-th index of `axis` from `start`, `count` of them.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, a step of 0, or indices out of range.
    pub fn slice(&self, axis: usize, start: usize, count: usize, step: usize) -> Result<Self> {
        let misfit = || {
            invalid(format!(
                "slice of {count} from {start} by {step} on axis {axis} of shape {:?}",
                self.shape()
            ))
        };
        if axis >= self.rank() || step == 0 {
            return Err(misfit());
        }
        let last =
            count.saturating_sub(1).checked_mul(step).and_then(|span| span.checked_add(start));
        let in_range = if count == 0 {
            start <= self.shape[axis]
        } else {
            last.is_some_and(|last| last < self.shape[axis])
        };
        if !in_range {
            return Err(misfit());
        }
        let mut result = *self;
        result.shape[axis] = count;
        result.offset += start * self.strides[axis];
        result.strides[axis] = self.strides[axis] * step;
        Ok(result)
    }

    /// The same elements in another shape, without moving any.
    ///
    /// # Errors
    ///
    /// Another number of elements, or a layout that is not contiguous.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self> {
        check_rank(shape.len())?;
        let dense = Self::contiguous(self.dtype, shape)?;
        if dense.elements() != self.elements() {
            return Err(invalid(format!("{:?} does not reshape to {shape:?}", self.shape())));
        }
        if !self.is_contiguous() {
            return Err(invalid(format!("{self:?} is not contiguous: copy it before the reshape")));
        }
        Self::strided(self.dtype, shape, dense.strides(), self.offset)
    }

    /// Adds `count` elements to the offset.
    pub fn shifted(mut self, count: usize) -> Result<Self> {
        self.offset = self.offset.checked_add(count).ok_or_else(|| too_large(self.shape()))?;
        Self::strided(self.dtype, self.shape(), self.strides(), self.offset)
    }

    /// The position, in elements, of the element at `index` of the row-major order of the shape.
    pub fn position(&self, mut index: usize) -> usize {
        let mut position = self.offset;
        for axis in (0..self.rank()).rev() {
            position += (index % self.shape[axis]) * self.strides[axis];
            index /= self.shape[axis];
        }
        position
    }
}

/// The shape that several shapes broadcast to, by the rules of NumPy.
///
/// # Errors
///
/// Sizes on one axis that differ and are not 1.
pub fn broadcast_shapes(
    left: &[usize],
    right: &[usize],
) -> Result<smallvec::SmallVec<[usize; MAX_RANK]>> {
    let rank = left.len().max(right.len());
    check_rank(rank)?;
    let size = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis])
    };
    (0..rank)
        .map(|axis| match (size(left, axis), size(right, axis)) {
            (l, r) if l == r => Ok(l),
            (1, r) => Ok(r),
            (l, 1) => Ok(l),
            _ => Err(invalid(format!("shapes {left:?} and {right:?} do not broadcast"))),
        })
        .collect()
}

fn check_rank(rank: usize) -> Result<()> {
    if rank > MAX_RANK {
        return Err(invalid(format!("rank {rank} is above {MAX_RANK}")));
    }
    Ok(())
}

fn too_large(shape: &[usize]) -> Error {
    invalid(format!("shape {shape:?} spans more memory than can be addressed"))
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape())?;
        if !self.is_contiguous() {
            write!(f, " strides {:?}", self.strides())?;
        }
        if self.offset != 0 {
            write!(f, " offset {}", self.offset)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;

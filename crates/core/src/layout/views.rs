//! Layouts made from others: other views of the same memory.

use super::{Layout, MAX_RANK, check_rank, invalid, too_large};
use crate::size;
use crate::{DType, Result};

impl Layout {
    /// The same shape, strides and offset, counted in elements of another type.
    ///
    /// With a larger type this may reach beyond what memory can have. Such a layout fits no buffer: its
    /// [`extent_bytes`](Self::extent_bytes) are `usize::MAX`, and no Command takes it.
    pub fn with_dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// This layout repeated along axes of size 1, and along new leading axes, to have `shape`.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::DType;
    /// use millstream::memory::Layout;
    ///
    /// let row = Layout::contiguous(DType::F32, &[3])?;
    /// assert_eq!(row.broadcast_to(&[2, 3])?.strides(), [0, 1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
        let stretched = self.checked().map(drop);
        if stretched.is_ok() && self.checked_extent().is_some() {
            return Ok(());
        }
        (self.rank, self.shape, self.strides) = (old, old_shape, old_strides);
        stretched.and(Err(too_large(shape)))
    }

    /// The axes in another order: axis `i` of the result is axis `order[i]` of this layout.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::DType;
    /// use millstream::memory::Layout;
    ///
    /// let layout = Layout::contiguous(DType::F32, &[2, 3, 4])?;
    /// assert_eq!(layout.permute(&[2, 0, 1])?.shape(), [4, 2, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
        result.checked()
    }

    /// Swaps two axes.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::DType;
    /// use millstream::memory::Layout;
    ///
    /// let layout = Layout::contiguous(DType::F32, &[2, 3])?;
    /// assert_eq!(layout.transpose(0, 1)?.strides(), [1, 3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
        result.checked()
    }

    /// Every `step`-th index of `axis` from `start`, `count` of them.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::DType;
    /// use millstream::memory::Layout;
    ///
    /// let layout = Layout::contiguous(DType::F32, &[8])?;
    /// let odd = layout.slice(0, 1, 4, 2)?;
    /// assert_eq!((odd.shape(), odd.strides(), odd.offset()), (&[4][..], &[2][..], 1));
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
        let mut result = *self;
        result.shape[axis] = count;
        if count == 0 {
            // Nothing begins anywhere: a place behind the last may lie beyond memory.
            return if start <= self.shape[axis] { Ok(result) } else { Err(misfit()) };
        }
        if size::advance(start, count - 1, step) >= self.shape[axis] {
            return Err(misfit());
        }
        result.offset = size::advance(self.offset, start, self.strides[axis]);
        // A step that is never taken may be any.
        if count > 1 {
            result.strides[axis] = self.strides[axis].saturating_mul(step);
        }
        result.checked()
    }

    /// The same elements in another shape, without moving any.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::DType;
    /// use millstream::memory::Layout;
    ///
    /// let layout = Layout::contiguous(DType::F32, &[2, 6])?;
    /// assert_eq!(layout.reshape(&[3, 4])?.strides(), [4, 1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
    ///
    /// # Errors
    ///
    /// An offset beyond what memory can have.
    pub fn shifted(mut self, count: usize) -> Result<Self> {
        self.offset = self.offset.checked_add(count).ok_or_else(|| too_large(self.shape()))?;
        Self::strided(self.dtype, self.shape(), self.strides(), self.offset)
    }

    /// The bytes of elements that are only stored, as `u8`. Other layouts stay as they are.
    pub fn storage_bytes(&self) -> Self {
        if !self.dtype.is_storage() {
            return *self;
        }
        if self.dtype.per_byte() == 1 {
            return self.with_dtype(DType::U8);
        }
        let mut bytes = Self::scalar(DType::U8);
        (bytes.rank, bytes.offset) = (1, self.start_bytes());
        (bytes.shape[0], bytes.strides[0]) = (self.dense_bytes(), 1);
        bytes
    }
}

/// The shape that several shapes broadcast to, by the rules of NumPy.
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::memory::broadcast_shapes;
///
/// assert_eq!(broadcast_shapes(&[2, 1], &[3])?[..], [2, 3]);
/// # Ok::<(), millstream::Error>(())
/// ```
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

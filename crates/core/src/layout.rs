//! Where the elements of an operand lie in its buffer.

mod views;

pub use views::broadcast_shapes;

use std::fmt;

use crate::size;
use crate::{DType, Error, Result};

/// The highest rank of an operand.
pub const MAX_RANK: usize = 8;

/// Shape, strides, offset and element type of one operand. Strides and offset count elements.
///
/// A layout is plain data of a fixed size. It says nothing about a buffer: whether it fits one is
/// checked when a [`Command`](crate::Command) is built.
///
/// No method panics or wraps around, whatever the numbers are. Memory can have the bytes of every layout
/// that a constructor gives, also those of an empty one, whose empty axes count here as of size 1; only
/// [`with_dtype`](Self::with_dtype) makes layouts for which this does not hold, and those fit no buffer.
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::DType;
/// use millstream::memory::Layout;
///
/// # fn main() -> millstream::Result<()> {
/// let matrix = Layout::contiguous(DType::F32, &[2, 3])?;
/// assert_eq!(matrix.dense_bytes(), 24);
/// assert_eq!(matrix.shape(), [2, 3]);
/// # Ok(())
/// # }
/// ```
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
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::DType;
    /// use millstream::memory::Layout;
    ///
    /// let layout = Layout::contiguous(DType::F32, &[2, 3])?;
    /// assert_eq!(layout.strides(), [3, 1]);
    /// assert_eq!(layout.dense_bytes(), 24);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
        size::bytes(step, dtype).ok_or_else(|| too_large(shape))?;
        Ok(layout)
    }

    /// A layout with one element and rank 0.
    pub fn scalar(dtype: DType) -> Self {
        Self { dtype, rank: 0, offset: 0, shape: [1; MAX_RANK], strides: [0; MAX_RANK] }
    }

    /// A layout with given strides and offset, counted in elements. A stride of 0 repeats. The stride of
    /// an axis with one index or none is never used: one that is beyond memory is kept as 0.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::DType;
    /// use millstream::memory::Layout;
    ///
    /// let columns = Layout::strided(DType::F32, &[3, 2], &[1, 3], 0)?; // [2, 3] seen by its columns
    /// assert_eq!(columns, Layout::contiguous(DType::F32, &[2, 3])?.transpose(0, 1)?);
    /// # Ok::<(), millstream::Error>(())
    /// ```
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
        for axis in 0..shape.len() {
            let beyond = size::bytes(strides[axis], dtype).is_none();
            if shape[axis] <= 1 && beyond {
                layout.strides[axis] = 0;
            }
        }
        layout.checked()?;
        if layout.checked_extent().is_some() { Ok(layout) } else { Err(too_large(shape)) }
    }

    /// One past the last byte that is touched. `None` if memory cannot have the bytes that the layout
    /// reaches, or those of its elements if they lay densely.
    fn checked_extent(&self) -> Option<usize> {
        let (mut last, mut dense, mut empty) = (self.offset, 1usize, false);
        for (&size, &stride) in self.shape().iter().zip(self.strides()) {
            empty |= size == 0;
            let size = size.max(1);
            last = size::checked_advance(last, size - 1, stride)?;
            dense = dense.checked_mul(size)?;
        }
        size::bytes(dense, self.dtype)?;
        let extent = size::bytes(last.checked_add(1)?, self.dtype)?;
        if !self.begins_and_ends_with_bytes() {
            return None;
        }
        Some(if empty { 0 } else { extent })
    }

    /// Whether no element shares a byte with one that is not of this layout. Of types of 4 bits that is asked
    /// of every layout: they are moved byte by byte.
    fn begins_and_ends_with_bytes(&self) -> bool {
        let shared = self.dtype.per_byte();
        shared == 1 || (self.offset.is_multiple_of(shared) && self.is_contiguous())
    }

    /// A layout that was made of another one by choosing or turning.
    fn checked(self) -> Result<Self> {
        if self.begins_and_ends_with_bytes() {
            return Ok(self);
        }
        let (dtype, shape) = (self.dtype, self.shape());
        Err(invalid(format!(
            "{dtype}{shape:?} would not lie densely from a byte on: cast it first"
        )))
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

    /// The distance, in elements, between neighbors along each axis.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.rank()]
    }

    /// The index, in elements, of the first element.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        size::product(self.shape())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// Bytes that the elements would take if they lay densely; `usize::MAX` if there are more.
    pub fn dense_bytes(&self) -> usize {
        self.dtype.bytes(self.elements()).unwrap_or(usize::MAX)
    }

    /// One past the last byte of a buffer that the layout touches; 0 when it is empty. `usize::MAX`, which
    /// no buffer has, for a layout that memory cannot have.
    pub fn extent_bytes(&self) -> usize {
        self.checked_extent().unwrap_or(usize::MAX)
    }

    /// The first byte of a buffer that the layout touches; `usize::MAX` if it is beyond that.
    pub fn start_bytes(&self) -> usize {
        self.dtype.bytes(self.offset).unwrap_or(usize::MAX)
    }

    /// Whether the elements lie densely in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1usize;
        for axis in (0..self.rank()).rev() {
            if self.shape[axis] != 1 && self.strides[axis] != step {
                return self.is_empty();
            }
            step = step.saturating_mul(self.shape[axis]);
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
            reach = size::advance(reach, self.shape[axis] - 1, self.strides[axis]);
        }
        true
    }

    /// The position, in elements, of the element at `index` of the row-major order of the shape. Beyond the
    /// last element it begins again at the first; where there is none, it is the offset.
    pub fn position(&self, mut index: usize) -> usize {
        let mut position = self.offset;
        for axis in (0..self.rank()).rev() {
            let size = self.shape[axis];
            if size == 0 {
                return self.offset;
            }
            position = size::advance(position, index % size, self.strides[axis]);
            index /= size;
        }
        position
    }
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
mod tests;

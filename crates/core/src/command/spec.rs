//! Element type and shape of a tensor, without a place in memory.

use std::fmt;

use crate::{DType, Layout, MAX_RANK, Result};

/// Element type and shape of a tensor.
///
/// # Example
///
/// ```
/// # millstream_core::doctest!();
/// use millstream::command::TensorSpec;
/// use millstream::DType;
///
/// let spec = TensorSpec::new(DType::F32, &[2, 3]).unwrap();
/// assert_eq!(spec.to_string(), "f32[2, 3]");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    dtype: DType,
    rank: u8,
    /// Sizes beyond the rank are 1.
    shape: [usize; MAX_RANK],
}

impl TensorSpec {
    /// A tensor of this type and shape.
    ///
    /// # Errors
    ///
    /// A rank above [`MAX_RANK`], or more elements than can be addressed.
    pub fn new(dtype: DType, shape: &[usize]) -> Result<Self> {
        Ok(Self::of(&Layout::contiguous(dtype, shape)?))
    }

    /// The type and shape of a layout.
    pub fn of(layout: &Layout) -> Self {
        let mut shape = [1; MAX_RANK];
        shape[..layout.rank()].copy_from_slice(layout.shape());
        Self { dtype: layout.dtype(), rank: layout.rank() as u8, shape }
    }

    /// A dense layout with this type and shape.
    ///
    /// # Errors
    ///
    /// More elements than can be addressed. This happens only if the specification was taken from a layout that
    /// repeats elements.
    pub fn layout(&self) -> Result<Layout> {
        Layout::contiguous(self.dtype, self.shape())
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The size of every axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape[..usize::from(self.rank)]
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape())
    }
}

impl fmt::Debug for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

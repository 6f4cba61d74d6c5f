//! Reading and writing elements by index.
//!
//! Every operation of the family moves slices (perhaps of one element) between an operand that has
//! them one after another and an operand that has them where indices say.

mod gather;
mod scatter;

pub(super) use gather::{gather, gather_elements, gather_nd};
pub(super) use scatter::{Operands as ScatterOperands, scatter_elements, scatter_nd};

use std::cell::Cell;

use millstream_core::{DType, Layout, MAX_RANK, Operand, RawBuffer};

use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::KernelFault;
use crate::kernels::shared::parallel::Shared;
use crate::kernels::shared::walk::{Axis, Walk};

/// Where slices lie that indices name.
struct Slices {
    /// All slices in row-major order: of the operand that has them one after another, of the operand
    /// indexed into, and of the indices.
    all: Walk<3>,
    /// The elements of one slice, of the first two.
    slice: Walk<2>,
    tuple: Tuple,
}

impl Slices {
    /// Whole slices along an axis, which the axes of the indices take the place of.
    ///
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), for the indices.
    unsafe fn along(
        axis: usize,
        dense: &Layout,
        indexed: &Layout,
        indices: &Operand<RawBuffer>,
    ) -> Self {
        let (to, from, at) = (dense.strides(), indexed.strides(), indices.layout.strides());
        let before = (0..axis).map(|i| (dense.shape()[i], [to[i], from[i], 0]));
        let replaced = (0..at.len()).map(|i| (dense.shape()[axis + i], [to[axis + i], 0, at[i]]));
        let behind = axis + 1..indexed.rank();
        Slices {
            all: Walk::from_axes(before.chain(replaced)),
            slice: Walk::from_axes(
                behind.zip(axis + at.len()..).map(|(i, j)| (indexed.shape()[i], [to[j], from[i]])),
            ),
            // SAFETY: passed on.
            tuple: unsafe { Tuple::new(indices, 0, [(indexed.shape()[axis], from[axis])]) },
        }
    }

    /// Single elements, with the coordinate on the axis replaced.
    ///
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), for the indices.
    unsafe fn elements(
        axis: usize,
        dense: &Layout,
        indexed: &Layout,
        indices: &Operand<RawBuffer>,
    ) -> Self {
        let (to, from, at) = (dense.strides(), indexed.strides(), indices.layout.strides());
        let place = |i: usize| -> Axis<3> {
            (dense.shape()[i], [to[i], if i == axis { 0 } else { from[i] }, at[i]])
        };
        Slices {
            all: Walk::from_axes((0..dense.rank()).map(place)),
            slice: Walk::from_axes(std::iter::empty()),
            // SAFETY: passed on.
            tuple: unsafe { Tuple::new(indices, 0, [(indexed.shape()[axis], from[axis])]) },
        }
    }

    /// Slices by tuples, which are the last axis of the indices, behind shared axes.
    ///
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), for the indices.
    unsafe fn tuples(
        shared: usize,
        dense: &Layout,
        indexed: &Layout,
        indices: &Operand<RawBuffer>,
    ) -> Self {
        let (to, from, at) = (dense.strides(), indexed.strides(), indices.layout.strides());
        let leading = at.len() - 1;
        let count = indices.layout.shape()[leading];
        let place = |i: usize| -> Axis<3> {
            (dense.shape()[i], [to[i], if i < shared { from[i] } else { 0 }, at[i]])
        };
        let behind = shared + count..indexed.rank();
        let coordinates = (shared..shared + count).map(|i| (indexed.shape()[i], from[i]));
        Slices {
            all: Walk::from_axes((0..leading).map(place)),
            slice: Walk::from_axes(
                behind.zip(leading..).map(|(i, j)| (indexed.shape()[i], [to[j], from[i]])),
            ),
            // SAFETY: passed on.
            tuple: unsafe { Tuple::new(indices, at[leading], coordinates) },
        }
    }
}

/// How an index, or a tuple of them, becomes a position.
struct Tuple {
    indices: Shared<u8>,
    wide: bool,
    /// From one index of a tuple to the next.
    step: usize,
    count: usize,
    /// Size and stride of the axis that each index is a coordinate of.
    axes: [(usize, usize); MAX_RANK],
}

impl Tuple {
    unsafe fn new(
        indices: &Operand<RawBuffer>,
        step: usize,
        coordinates: impl IntoIterator<Item = (usize, usize)>,
    ) -> Self {
        let wide = indices.layout.dtype() == DType::I64;
        // SAFETY: passed on; the address is the same whatever the type.
        let first =
            unsafe { if wide { base::<i64>(indices).cast() } else { base::<i32>(indices).cast() } };
        let mut tuple =
            Tuple { indices: Shared::new(first), wide, step, count: 0, axes: [(0, 0); MAX_RANK] };
        for axis in coordinates {
            tuple.axes[tuple.count] = axis;
            tuple.count += 1;
        }
        tuple
    }

    /// The position, in elements, that the tuple at `at` elements from the first index names. It lies
    /// inside the axes that the tuple is about.
    ///
    /// # Safety
    ///
    /// The tuple lies inside the indices, which nobody writes.
    #[inline(always)]
    unsafe fn position(&self, at: usize) -> Result<usize, OutsideAxis> {
        let mut position = 0;
        for (i, &(size, stride)) in self.axes[..self.count].iter().enumerate() {
            let at = at + i * self.step;
            // SAFETY: passed on; the type is that of the operand.
            let index = unsafe {
                if self.wide {
                    self.indices.get().cast::<i64>().add(at).read()
                } else {
                    i64::from(self.indices.get().cast::<i32>().add(at).read())
                }
            };
            position += resolve(index, size)? * stride;
        }
        Ok(position)
    }
}

/// A coordinate from an index, which counts from the end when it is negative.
#[inline(always)]
fn resolve(index: i64, size: usize) -> Result<usize, OutsideAxis> {
    // A size is at most `i64::MAX`, so a negative index that wraps below zero stays too large.
    let place = if index < 0 { index.wrapping_add(size as i64) } else { index } as u64;
    if place < size as u64 { Ok(place as usize) } else { Err(OutsideAxis { index, size }) }
}

/// An index that names no element.
#[derive(Clone, Copy)]
struct OutsideAxis {
    index: i64,
    size: usize,
}

impl From<OutsideAxis> for KernelFault {
    #[cold]
    fn from(OutsideAxis { index, size }: OutsideAxis) -> Self {
        KernelFault::new(format!("index {index} is outside an axis of size {size}"))
    }
}

/// The first bad index that a loop over many meets.
#[derive(Default)]
struct FirstOutside(Cell<Option<OutsideAxis>>);

impl FirstOutside {
    /// The value; a bad index is remembered if it is the first.
    #[inline(always)]
    fn check<T>(&self, found: Result<T, OutsideAxis>) -> Option<T> {
        found.map_err(|outside| self.0.set(self.0.get().or(Some(outside)))).ok()
    }

    fn into_result(self) -> Result<(), KernelFault> {
        self.0.into_inner().map_or(Ok(()), |outside| Err(outside.into()))
    }
}

//! Reading elements by index.
//!
//! Indices are `i32` or `i64`. A negative index counts from the end of its axis. Indices are data, so an index
//! outside its axis is found when the Command runs. The Command then fails with
//! [`Error::Fault`](crate::Error::Fault), which names the index. Nothing outside the operands is touched.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Whole slices of `src` along an axis: the axis is replaced by the axes of `indices`, so `dst` has
    /// the shape `src[..axis] + indices + src[axis + 1..]`.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type than `i32` or `i64`, types or shapes that
    /// do not match, or operands that do not fit their buffers or overlap.
    pub fn gather(
        dst: Operand<B>,
        src: Operand<B>,
        indices: Operand<B>,
        axis: usize,
    ) -> Result<Self> {
        Self::new(Op::Gather { axis: small(axis) }, [dst], [src, indices])
    }

    /// Rows of a `table`: `dst` has the shape of `ids`, followed by all axes of the table but the first.
    ///
    /// # Errors
    ///
    /// As for [`gather`](Self::gather) along axis 0.
    pub fn embedding(dst: Operand<B>, table: Operand<B>, ids: Operand<B>) -> Result<Self> {
        Self::new(Op::Embedding, [dst], [table, ids])
    }

    /// Single elements along an axis: an element of `dst` is the element of `src` with the same coordinates, except
    /// that the coordinate on the axis is the index at that position. `dst` has the shape of `indices`, which must
    /// not be larger than `src` on the other axes.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type than `i32` or `i64`, types or shapes that
    /// do not match, or operands that do not fit their buffers or overlap.
    pub fn gather_elements(
        dst: Operand<B>,
        src: Operand<B>,
        indices: Operand<B>,
        axis: usize,
    ) -> Result<Self> {
        Self::new(Op::GatherElements { axis: small(axis) }, [dst], [src, indices])
    }

    /// Slices by index tuples. The first `batch_axes` axes are shared by `src` and `indices`. The last axis of
    /// `indices` holds tuples of coordinates for the next axes of `src`. `dst` has the shape `indices[..-1] +
    /// src[batch_axes + tuple..]`.
    ///
    /// # Errors
    ///
    /// Tuples that are empty or have more coordinates than there are axes, indices of another type than `i32` or
    /// `i64`, types or shapes that do not match, or operands that do not fit their buffers or overlap.
    pub fn gather_nd(
        dst: Operand<B>,
        src: Operand<B>,
        indices: Operand<B>,
        batch_axes: usize,
    ) -> Result<Self> {
        let op = Op::GatherNd { batch_axes: small(batch_axes) };
        Self::new(op, [dst], [src, indices])
    }
}

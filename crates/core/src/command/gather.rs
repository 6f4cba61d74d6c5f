//! Reading elements by index.
//!
//! Indices are `i32` or `i64`, and a negative one counts from the end of its axis. They are data, so
//! an index outside its axis is found when the Command runs: it fails there with
//! [`Error::Fault`](crate::Error::Fault), which names the index, and nothing outside the operands is
//! touched.

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

    /// Rows of a `table`: `dst` has the shape of `ids` and then the axes of the table but the first.
    ///
    /// # Errors
    ///
    /// As for [`gather`](Self::gather) along axis 0.
    pub fn embedding(dst: Operand<B>, table: Operand<B>, ids: Operand<B>) -> Result<Self> {
        Self::new(Op::Embedding, [dst], [table, ids])
    }

    /// Single elements along an axis: each element of `dst` is the element of `src` at its own place,
    /// with the coordinate on the axis replaced by the index at that place. `dst` has the shape of
    /// `indices`, which on the other axes is no larger than `src`.
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

    /// Slices by index tuples. The last axis of `indices` holds tuples of coordinates for the axes of
    /// `src` behind the first `batch_axes`, which both share; `dst` has the shape
    /// `indices[..-1] + src[batch_axes + tuple..]`.
    ///
    /// # Errors
    ///
    /// Tuples that are empty or longer than the axes there are, indices of another type than `i32` or
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

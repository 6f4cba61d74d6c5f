//! Reading elements by index.
//!
//! Indices are `i32` or `i64`, and a negative one counts from the end of its axis. They are data, so
//! an index outside its axis is found when the Command runs: it fails there with
//! [`Error::Fault`](crate::Error::Fault), which names the index, and nothing outside the operands is
//! touched.

use super::check::Check;
use super::{BufferLike, Command, Op, Operand};
use crate::{DType, Layout, Result};

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
        let check = Check("gather");
        check.axis(axis, &src.layout)?;
        check.same_dtype(&dst.layout, &src.layout)?;
        check.indices(&indices.layout)?;
        let (before, behind) = src.layout.shape().split_at(axis);
        let expected = before.iter().chain(indices.layout.shape()).chain(&behind[1..]);
        let fits = dst.layout.shape().iter().eq(expected);
        check.output(fits, &dst.layout, &src.layout, &indices.layout)?;
        Self::assemble(Op::Gather { axis: axis as u8 }, [dst], [src, indices])
    }

    /// Rows of a `table`: `dst` has the shape of `ids` and then the axes of the table but the first.
    ///
    /// # Errors
    ///
    /// As for [`gather`](Self::gather) along axis 0.
    pub fn embedding(dst: Operand<B>, table: Operand<B>, ids: Operand<B>) -> Result<Self> {
        let check = Check("embedding");
        check.axis(0, &table.layout)?;
        check.same_dtype(&dst.layout, &table.layout)?;
        check.indices(&ids.layout)?;
        let expected = ids.layout.shape().iter().chain(&table.layout.shape()[1..]);
        let fits = dst.layout.shape().iter().eq(expected);
        check.output(fits, &dst.layout, &table.layout, &ids.layout)?;
        Self::assemble(Op::Embedding, [dst], [table, ids])
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
        let check = Check("gather_elements");
        check.axis(axis, &src.layout)?;
        check.same_dtype(&dst.layout, &src.layout)?;
        check.indices(&indices.layout)?;
        check.inside(&indices.layout, &src.layout, axis)?;
        let fits = dst.layout.shape() == indices.layout.shape();
        check.output(fits, &dst.layout, &src.layout, &indices.layout)?;
        Self::assemble(Op::GatherElements { axis: axis as u8 }, [dst], [src, indices])
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
        let check = Check("gather_nd");
        check.same_dtype(&dst.layout, &src.layout)?;
        check.indices(&indices.layout)?;
        let (from, tuples) = (src.layout.shape(), indices.layout.shape());
        let (leading, tuple) = check.tuples(&indices.layout, &src.layout, batch_axes)?;
        check.that(batch_axes <= leading && from[..batch_axes] == tuples[..batch_axes], || {
            format!("input {from:?} and indices {tuples:?} do not share {batch_axes} axes")
        })?;
        let expected = tuples[..leading].iter().chain(&from[batch_axes + tuple..]);
        let fits = dst.layout.shape().iter().eq(expected);
        check.output(fits, &dst.layout, &src.layout, &indices.layout)?;
        let op = Op::GatherNd { batch_axes: batch_axes as u8 };
        Self::assemble(op, [dst], [src, indices])
    }
}

impl Check {
    pub(super) fn indices(&self, layout: &Layout) -> Result<()> {
        self.that(matches!(layout.dtype(), DType::I32 | DType::I64), || {
            format!("indices have the type i32 or i64, not {}", layout.dtype())
        })
    }

    /// Indices for single elements of an operand.
    pub(super) fn inside(&self, indices: &Layout, operand: &Layout, axis: usize) -> Result<()> {
        let fits = indices.rank() == operand.rank()
            && (0..operand.rank())
                .all(|other| other == axis || indices.shape()[other] <= operand.shape()[other]);
        self.that(fits, || {
            format!(
                "indices {:?} for elements of {:?} along axis {axis}",
                indices.shape(),
                operand.shape()
            )
        })
    }

    /// Index tuples for an operand: how many axes lead them, and how long they are.
    pub(super) fn tuples(
        &self,
        indices: &Layout,
        operand: &Layout,
        batch_axes: usize,
    ) -> Result<(usize, usize)> {
        let most = operand.rank().saturating_sub(batch_axes);
        match indices.shape().split_last() {
            Some((&tuple, leading)) if (1..=most).contains(&tuple) => Ok((leading.len(), tuple)),
            _ => self.fail(format!(
                "index tuples {:?} for {:?}, of which {batch_axes} axes are shared",
                indices.shape(),
                operand.shape()
            )),
        }
    }

    fn output(&self, fits: bool, dst: &Layout, src: &Layout, indices: &Layout) -> Result<()> {
        self.that(fits, || {
            format!(
                "output {:?} for input {:?} and indices {:?}",
                dst.shape(),
                src.shape(),
                indices.shape()
            )
        })
    }
}

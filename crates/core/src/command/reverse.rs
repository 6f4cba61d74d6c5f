//! Elements in the opposite order.

use super::check::small;
use super::{Axes, BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// `src` with its elements in the opposite order along some axes.
    ///
    /// # Errors
    ///
    /// Axes that do not exist, shapes or types that differ, or operands that do not fit their buffers or
    /// overlap.
    pub fn reverse(dst: Operand<B>, src: Operand<B>, axes: Axes) -> Result<Self> {
        Self::new(Op::Reverse { axes, batch_axis: None }, [dst], [src])
    }

    /// `src` with the first elements of an axis in the opposite order: as many as `lengths`, `i32` or `i64`, has
    /// at the index on `batch_axis`. The others stay where they are. A length below 0 or beyond the axis is a
    /// fault.
    ///
    /// # Errors
    ///
    /// As for [`reverse`](Self::reverse), axes that are the same one, or lengths of another shape than the batch
    /// axis.
    pub fn reverse_sequence(
        dst: Operand<B>,
        src: Operand<B>,
        lengths: Operand<B>,
        axis: usize,
        batch_axis: usize,
    ) -> Result<Self> {
        let op = Op::Reverse { axes: Axes::new(&[axis])?, batch_axis: Some(small(batch_axis)) };
        Self::new(op, [dst], [src, lengths])
    }
}

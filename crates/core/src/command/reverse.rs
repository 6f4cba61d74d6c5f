//! Reversing the order of elements.

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

    /// Reverses only the first elements along an axis. `lengths`, `i32` or `i64`, says how many for each index of
    /// `batch_axis`. The other elements stay. A length below 0 or beyond the axis is a fault.
    ///
    /// # Errors
    ///
    /// As for [`reverse`](Self::reverse), the same axis twice, or lengths whose number is not the size of the batch
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

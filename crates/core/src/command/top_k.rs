//! The largest and smallest elements.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// The largest or smallest elements along an axis and their indices. The outputs' size on the axis says how many.
    /// NaN counts as the largest number. Of equal elements the one with the lower index comes first. With `sorted`
    /// the best comes first; else elements are in the order of their indices.
    ///
    /// # Errors
    ///
    /// `bool`, `indices` that are not `i64`, an axis that does not exist, more elements than the axis has, types or
    /// shapes that do not match, or operands that do not fit their buffers or overlap.
    pub fn top_k(
        values: Operand<B>,
        indices: Operand<B>,
        src: Operand<B>,
        axis: usize,
        largest: bool,
        sorted: bool,
    ) -> Result<Self> {
        let k = values.layout.shape().get(axis).copied().unwrap_or(0);
        let op = Op::TopK { axis: small(axis), k, largest, sorted };
        Self::new(op, [values, indices], [src])
    }
}

//! Caches of keys and values, and positions in them.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Writes `update` into `cache` along an axis, from a position on.
    ///
    /// The first axis is the batch. `positions` has one `i32` or `i64` for each batch: where its update begins.
    /// Without `positions`, all updates begin at 0. `update` has the shape of `cache`, but may be shorter on the
    /// axis.
    ///
    /// `dst` is usually `cache` itself; then only the update is moved. ONNX calls this operation `TensorScatter`. In
    /// its mode `circular`, an update that reaches the end of the axis continues at the beginning.
    ///
    /// An update that does not fit at its position is found when the Command is executed, and is a fault.
    ///
    /// # Errors
    ///
    /// An axis that is the first or does not exist, types or shapes that do not match, or operands that do not
    /// fit their buffers or overlap.
    pub fn cache_write(
        dst: Operand<B>,
        cache: Operand<B>,
        update: Operand<B>,
        positions: Option<Operand<B>>,
        axis: usize,
        circular: bool,
    ) -> Result<Self> {
        let op = Op::CacheWrite { axis: small(axis), circular, positions: positions.is_some() };
        Self::new(op, [dst], [cache, update].into_iter().chain(positions))
    }

    /// Rotary embedding of `src`, `[batch, heads, length, size]`, as [`Op::Rope`] describes it. For input of the
    /// shape `[batch, length, heads · size]`, pass a layout with the strides of that view.
    ///
    /// Computed in `f32` (`f64` for `f64`). A position that has no row in `cos` and `sin` is found when the Command
    /// is executed, and is a fault.
    ///
    /// # Errors
    ///
    /// Types or shapes that do not match, or operands that do not fit their buffers or overlap.
    pub fn rope(
        dst: Operand<B>,
        src: Operand<B>,
        cos: Operand<B>,
        sin: Operand<B>,
        positions: Option<Operand<B>>,
        interleaved: bool,
    ) -> Result<Self> {
        let op = Op::Rope { interleaved, positions: positions.is_some() };
        Self::new(op, [dst], [src, cos, sin].into_iter().chain(positions))
    }
}

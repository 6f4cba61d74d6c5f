//! Caches of keys and values, and positions in them.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// `cache` with `update` written from a position of an axis on: of each batch, which is the first axis,
    /// from that of `positions`, which has one `i32` or `i64` for each, and from 0 without. `update` has the
    /// shape of `cache`, but fewer elements on the axis.
    ///
    /// `dst` is usually `cache` itself: then only the update is moved. ONNX calls this `TensorScatter`; its mode
    /// `circular` continues at the beginning of the axis.
    ///
    /// A position from which the update does not fit is found when the Command is executed, and is a fault.
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

    /// Rotary embedding of `src`, `[batch, heads, length, size]`, as [`Op::Rope`] describes it. What has heads
    /// beside each other, `[batch, length, heads · size]`, is viewed so with strides.
    ///
    /// Computed in `f32` (`f64` for `f64`). A position without a row in `cos` and `sin` is found when the Command
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

//! Running sums.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Running sums of numbers along an axis: each element of `dst` is the sum of the elements of `src`
    /// up to it, or before it if `exclusive`; `reverse` runs from the end. Integers wrap around. `dst`
    /// may be `src`.
    ///
    /// # Errors
    ///
    /// `bool`, shapes or types that differ, or an axis that does not exist.
    pub fn cumsum(
        dst: Operand<B>,
        src: Operand<B>,
        axis: usize,
        exclusive: bool,
        reverse: bool,
    ) -> Result<Self> {
        let op = Op::CumSum { axis: small(axis), exclusive, reverse };
        Self::new(op, [dst], [src])
    }
}

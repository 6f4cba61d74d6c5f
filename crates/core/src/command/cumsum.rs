//! Running sums and products.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Running sums along an axis: each element of `dst` is the sum of the elements of `src` up to and including it,
    /// or before it if `exclusive`. With `reverse`, the sum runs from the end. Integers wrap around. `dst` may be
    /// `src`.
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
        let op = Op::CumSum { axis: small(axis), exclusive, reverse, product: false };
        Self::new(op, [dst], [src])
    }

    /// Running products: as [`cumsum`](Self::cumsum), with products in place of sums.
    ///
    /// # Errors
    ///
    /// As for [`cumsum`](Self::cumsum).
    pub fn cumprod(
        dst: Operand<B>,
        src: Operand<B>,
        axis: usize,
        exclusive: bool,
        reverse: bool,
    ) -> Result<Self> {
        let op = Op::CumSum { axis: small(axis), exclusive, reverse, product: true };
        Self::new(op, [dst], [src])
    }
}

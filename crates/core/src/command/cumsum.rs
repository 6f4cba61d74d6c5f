//! Running sums.

use super::check::Check;
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
        let check = Check("cumsum");
        check.number(&src.layout)?;
        check.same_dtype(&dst.layout, &src.layout)?;
        check.same_shape(&src.layout, &dst.layout)?;
        check.axis(axis, &src.layout)?;
        let op = Op::CumSum { axis: axis as u8, exclusive, reverse };
        Self::assemble(op, [dst], [src])
    }
}

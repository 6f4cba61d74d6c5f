//! Padding and cropping.

use super::{BufferLike, Command, Op, Operand, PadParams};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Adds elements before the first and after the last of each axis, or takes some away.
    ///
    /// Negative widths crop first; what is added then continues what is left. Any width is fine: a
    /// mirror image or repetition that is used up goes on from its end. Widths beyond the rank are 0.
    ///
    /// # Errors
    ///
    /// A `dst` of another size, more to crop than there is, nothing left to continue, types that
    /// differ, or operands that do not fit their buffers or overlap.
    pub fn pad(dst: Operand<B>, src: Operand<B>, params: PadParams) -> Result<Self> {
        Self::new(Op::Pad { params: Box::new(params) }, [dst], [src])
    }
}

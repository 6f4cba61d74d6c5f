//! Padding and cropping.

use super::{BufferLike, Command, Op, Operand, PadParams};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Adds elements before the first and after the last of each axis, or takes some away.
    ///
    /// Negative widths crop. Cropping comes first, and padding continues what is left. Any width is allowed: a mirror
    /// image or a repetition that ends starts over. Widths beyond the rank are 0.
    ///
    /// # Errors
    ///
    /// A `dst` of another size, cropping of more elements than there are, padding that repeats elements where none
    /// are left, types that differ, or operands that do not fit their buffers or overlap.
    pub fn pad(dst: Operand<B>, src: Operand<B>, params: PadParams) -> Result<Self> {
        Self::new(Op::Pad { params: Box::new(params) }, [dst], [src])
    }
}

//! Padding and cropping.

use super::check::Check;
use super::{BufferLike, Command, Op, Operand, PadMode, PadParams};
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
        let check = Check("pad");
        check.same_dtype(&dst.layout, &src.layout)?;
        let (from, to) = (src.layout.shape(), dst.layout.shape());
        let rank = from.len();
        let beyond = params.before[rank..].iter().chain(&params.after[rank..]).any(|&w| w != 0);
        check.that(to.len() == rank && !beyond, || {
            format!("output {to:?} for input {from:?} with widths for another rank")
        })?;
        for axis in 0..rank {
            let (before, after) = (params.before[axis], params.after[axis]);
            let size = from[axis] as i128;
            // What both crops leave, of which neither side may have less than nothing.
            let left = size + i128::from(before.min(0)) + i128::from(after.min(0));
            let wanted = size + i128::from(before) + i128::from(after);
            check.that(left >= 0 && wanted == to[axis] as i128, || {
                format!(
                    "axis {axis} of size {size}, padded by {before} and {after}, does not give {}",
                    to[axis]
                )
            })?;
            let continues = !matches!(params.mode, PadMode::Constant(_));
            check
                .that(!continues || left > 0 || wanted == left || dst.layout.is_empty(), || {
                    format!("nothing is left of axis {axis} to continue by {:?}", params.mode)
                })?;
        }
        Self::assemble(Op::Pad { params: Box::new(params) }, [dst], [src])
    }
}

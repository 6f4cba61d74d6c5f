//! Interpolation.

use super::{BufferLike, Command, Op, Operand, ResizeParams};
use crate::{MAX_RANK, Result};

impl<B: BufferLike> Command<B> {
    /// Interpolates `src` to the size of `dst`, as ONNX's Resize does, in any number of axes.
    ///
    /// Coordinates are computed in `f64`. An axis keeps its elements where it has the same size in both
    /// and a scale of 1, unless the mode crops. Where a pixel lies outside the region of a crop, it gets
    /// the extrapolation value. How integers are interpolated is said by [`Op::Resize`].
    ///
    /// # Errors
    ///
    /// `bool` for anything but the nearest element, scales that are not positive, leave nothing of an axis or do not
    /// lead to the size of `dst`, an empty input, types or ranks that differ, or operands that do not fit their
    /// buffers or overlap.
    pub fn resize(dst: Operand<B>, src: Operand<B>, params: ResizeParams) -> Result<Self> {
        let mut sizes = [1; MAX_RANK];
        sizes[..dst.layout.rank()].copy_from_slice(dst.layout.shape());
        let params = ResizeParams { sizes, ..params };
        Self::new(Op::Resize { params: Box::new(params) }, [dst], [src])
    }
}

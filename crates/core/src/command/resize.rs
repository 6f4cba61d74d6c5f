//! Interpolation.

use super::{BufferLike, Command, Op, Operand, ResizeParams};
use crate::{MAX_RANK, Result};

impl<B: BufferLike> Command<B> {
    /// Interpolates `src` to the size of `dst`, as ONNX's Resize does, in any number of axes.
    ///
    /// Coordinates are computed in `f64`. An axis with the same size in both operands and a scale of 1 keeps its
    /// elements, unless the mode crops. Elements outside of a crop's region get the extrapolation value.
    /// [`Op::Resize`] says how integers are interpolated.
    ///
    /// # Errors
    ///
    /// `bool` with another mode than the nearest element, scales that are not positive, that leave nothing of an axis
    /// or that do not lead to the size of `dst`, an empty input, types or ranks that differ, or operands that do not
    /// fit their buffers or overlap.
    pub fn resize(dst: Operand<B>, src: Operand<B>, params: ResizeParams) -> Result<Self> {
        let mut sizes = [1; MAX_RANK];
        sizes[..dst.layout.rank()].copy_from_slice(dst.layout.shape());
        let params = ResizeParams { sizes, ..params };
        Self::new(Op::Resize { params: Box::new(params) }, [dst], [src])
    }
}

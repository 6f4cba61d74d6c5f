//! Sampling at the positions that a grid gives.

use super::{BufferLike, Command, Op, Operand};
use crate::Result;

/// How values between elements are interpolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GridMode {
    /// The nearest element; halves round to the even index.
    Nearest,
    /// Linear, from the two nearest elements along each axis.
    Linear,
    /// Cubic convolution with the coefficient -0.75, from the four nearest elements along each axis.
    Cubic,
}

impl GridMode {
    /// How many elements along each axis make one value.
    pub const fn taps(self) -> usize {
        match self {
            GridMode::Nearest => 1,
            GridMode::Linear => 2,
            GridMode::Cubic => 4,
        }
    }
}

/// The values outside of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GridPadding {
    /// Zeros.
    Zeros,
    /// The edge element.
    Border,
    /// The mirror image of the input, again and again.
    Reflection,
}

impl<B: BufferLike> Command<B> {
    /// Samples `src`, `[batch, channels, spatial…]`, at the positions in `grid`, `[batch, outputs…, axes]`, for two
    /// or three spatial axes. `dst` is `[batch, channels, outputs…]`.
    ///
    /// A coordinate is -1 at one end of its axis and 1 at the other. The first coordinate belongs to the last axis.
    /// With `align_corners` the ends are the centers of the outermost elements, else their outer edges. A coordinate
    /// that is NaN counts as far before the first element.
    ///
    /// Coordinates are computed in `f32`, in this order: `(x + 1) / 2 · (size - 1)`, or `((x + 1) · size - 1) / 2`.
    ///
    /// # Errors
    ///
    /// Types that differ or are not `f32`, `f16` or `bf16`, shapes that do not match, an empty `src`, or operands
    /// that do not fit their buffers or overlap.
    pub fn grid_sample(
        dst: Operand<B>,
        src: Operand<B>,
        grid: Operand<B>,
        (mode, padding): (GridMode, GridPadding),
        align_corners: bool,
    ) -> Result<Self> {
        Self::new(Op::GridSample { mode, padding, align_corners }, [dst], [src, grid])
    }
}

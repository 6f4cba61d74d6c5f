//! Elements at places that a grid names.

use super::{BufferLike, Command, Op, Operand};
use crate::Result;

/// What is found between elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GridMode {
    /// The nearest element; halves go to the even index.
    Nearest,
    /// Between the two nearest, along each axis.
    Linear,
    /// Between the four nearest, along each axis: cubic convolution with the coefficient -0.75.
    Cubic,
}

impl GridMode {
    /// Elements that count along each axis.
    pub const fn taps(self) -> usize {
        match self {
            GridMode::Nearest => 1,
            GridMode::Linear => 2,
            GridMode::Cubic => 4,
        }
    }
}

/// What there is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GridPadding {
    /// Zeros.
    Zeros,
    /// The edge element.
    Border,
    /// The mirror image, back and forth.
    Reflection,
}

impl<B: BufferLike> Command<B> {
    /// Elements of `src`, `[batch, channels, places…]`, at the places of `grid`, `[batch, outputs…, axes]`:
    /// `[batch, channels, outputs…]`, for two or three axes of places. A coordinate is -1 at one end of its axis
    /// and 1 at the other, and the first is that of the last axis. The ends are the middles of the outermost
    /// elements with `align_corners`, else their outer edges. A coordinate that is no number is far before the
    /// first element.
    ///
    /// Coordinates are computed in `f32`, in this order: `(x + 1) / 2 · (size - 1)`, or `((x + 1) · size - 1) / 2`.
    ///
    /// # Errors
    ///
    /// Types other than `f32`, `f16` and `bf16` or that differ, shapes that do not fit each other, nothing to
    /// sample, or operands that do not fit their buffers or overlap.
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

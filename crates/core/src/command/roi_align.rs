//! Regions of interest, each resampled to the same size.

use super::{BufferLike, Command, Op, Operand};
use crate::Result;

/// How the samples of one output are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoiMode {
    /// The mean of the interpolated samples.
    Mean,
    /// The largest weighted element: each of the four elements around each sample is multiplied by its interpolation
    /// weight. A sample outside of the input counts as 0, and so does an element with weight 0.
    Max,
}

/// How regions are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoiAlignParams {
    /// Height and width of the output.
    pub size: [u32; 2],
    /// Samples per output along each axis. With 0, there are as many as are needed for a distance of at most one
    /// element. At most [`MAX_SAMPLES`](Self::MAX_SAMPLES) in either case.
    pub samples: u32,
    /// The factor from the units of regions to elements of the source.
    pub scale: f32,
    /// How samples are combined.
    pub mode: RoiMode,
    /// Whether the coordinate 0 is the outer edge of the first element. If not, it is its center, and every region
    /// has a size of at least one element.
    pub half_pixel: bool,
}

impl RoiAlignParams {
    /// The most samples of an output along an axis.
    pub const MAX_SAMPLES: u32 = 1 << 16;
}

impl<B: BufferLike> Command<B> {
    /// Resamples regions of `src`, `[batch, channels, height, width]`, to `dst`, `[regions, channels, size…]`. `rois`
    /// is `[regions, 4]`: x and y of the first corner, then of the last. `batches` is `[regions]` of `i32` or `i64`:
    /// the batch of each region. An index outside of the batch is found when the Command is executed, and is a fault.
    ///
    /// A sample more than one element outside of `src` counts as 0; one that is nearer takes the value at the edge. A
    /// region with a NaN corner gives zeros. Coordinates are computed in `f32`, in the same order as in ONNX Runtime.
    ///
    /// # Errors
    ///
    /// Types that differ or are not `f32`, `f16` or `bf16`, shapes that do not match, an empty `src`, an output size
    /// of 0, too many samples, a scale that is not finite, or operands that do not fit their buffers or overlap.
    pub fn roi_align(
        dst: Operand<B>,
        src: Operand<B>,
        rois: Operand<B>,
        batches: Operand<B>,
        params: RoiAlignParams,
    ) -> Result<Self> {
        Self::new(Op::RoiAlign { params }, [dst], [src, rois, batches])
    }
}

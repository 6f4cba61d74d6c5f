//! Regions of interest, each brought to the same size.

use super::{BufferLike, Command, Op, Operand};
use crate::Result;

/// What becomes of the samples of one output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoiMode {
    /// The mean of what is found at the samples.
    Mean,
    /// The largest term: each of the four elements around a sample, times what it counts there. A sample
    /// outside, and an element that counts nothing, is a term of 0.
    Max,
}

/// How regions are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoiAlignParams {
    /// Height and width of the output.
    pub size: [u32; 2],
    /// Samples of an output along each axis, or 0 for as many as keeps them at most one element apart.
    /// [`MAX_SAMPLES`](Self::MAX_SAMPLES) at most, in both.
    pub samples: u32,
    /// Elements of the source in one unit of the regions.
    pub scale: f32,
    /// What becomes of the samples.
    pub mode: RoiMode,
    /// Whether 0 is the outer edge of the first element, else its middle, with regions of at least one element.
    pub half_pixel: bool,
}

impl RoiAlignParams {
    /// The most samples of an output along an axis.
    pub const MAX_SAMPLES: u32 = 1 << 16;
}

impl<B: BufferLike> Command<B> {
    /// Regions of `src`, `[batch, channels, height, width]`, sampled between elements: `[regions, channels, size…]`.
    /// `rois` is `[regions, 4]`: x and y of the first corner, then of the last. `batches` is `[regions]`, `i32` or
    /// `i64`: the batch that a region lies in. An index outside the batch is a fault of the data.
    ///
    /// Samples more than one element outside count as 0, others take the nearest edge. A corner that is no number
    /// makes a region of zeros. Coordinates are computed in `f32`, in the order that ONNX Runtime has.
    ///
    /// # Errors
    ///
    /// Types other than `f32`, `f16` and `bf16` or that differ, shapes that do not fit each other, nothing to
    /// sample, an output size of 0, too many samples, a scale that is not finite, or operands that do not fit
    /// their buffers or overlap.
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

//! Interpolation.

use super::check::Check;
use super::{BufferLike, Command, CoordinateMode, Op, Operand, ResizeMode, ResizeParams};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Interpolates `src` to the size of `dst`, as ONNX's Resize does, in any number of axes.
    ///
    /// Coordinates are computed in `f64`. An axis keeps its elements where it has the same size in both
    /// and a scale of 1, unless the mode crops. Where a pixel lies outside the region of a crop, it gets
    /// the extrapolation value.
    ///
    /// # Errors
    ///
    /// A type other than floating point for anything but the nearest element, scales that are not
    /// positive, leave nothing of an axis or do not lead to the size of `dst`, an empty input, types or ranks that differ, or
    /// operands that do not fit their buffers or overlap.
    pub fn resize(dst: Operand<B>, src: Operand<B>, params: ResizeParams) -> Result<Self> {
        let check = Check("resize");
        check.same_dtype(&dst.layout, &src.layout)?;
        if !matches!(params.mode, ResizeMode::Nearest(_)) {
            check.float(&src.layout)?;
        }
        if let ResizeMode::Cubic(coefficient) = params.mode {
            check.that(coefficient.is_finite(), || format!("coefficient {coefficient}"))?;
        }
        let (from, to) = (src.layout.shape(), dst.layout.shape());
        check.that(from.len() == to.len(), || format!("output {to:?} for input {from:?}"))?;
        check.that(!src.layout.is_empty() || dst.layout.is_empty(), || {
            format!("input {from:?} has nothing to interpolate")
        })?;
        let crops = params.coordinates == CoordinateMode::CropAndResize;
        for axis in 0..from.len() {
            let (scale, (start, end)) = (params.scales[axis], params.region[axis]);
            let exact = from[axis] as f64 * scale;
            // A filter is as wide as one over the scale, so a scale of almost nothing has no bound.
            let sound = scale.is_finite() && scale > 0.0 && (exact >= 0.5 || dst.layout.is_empty());
            check.that(sound, || format!("scale {scale} on axis {axis} of size {}", from[axis]))?;
            if crops {
                check.that(start.is_finite() && end.is_finite(), || {
                    format!("region {start} to {end} on axis {axis}")
                })?;
                continue;
            }
            // A size is the product rounded in some way; a size that was given makes the scale.
            let fits = (exact - to[axis] as f64).abs() < 1.0 + 1e-9 * exact;
            check.that(fits, || {
                format!(
                    "axis {axis} of size {} scaled by {scale} does not give {}",
                    from[axis], to[axis]
                )
            })?;
        }
        let op = Op::Resize { params: Box::new(params) };
        Self::assemble(op, [dst], [src])
    }
}

//! Sampling at positions that the data gives.

use super::{Fit, Shape};
use crate::command::RoiAlignParams;
use crate::{DType, Result};

pub(super) fn grid_sample<B>(fit: &mut Fit<'_, B>) -> Result<()> {
    let (dtype, rank) = (fit.dtype(0), fit.input(0).rank());
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return fit.misfit(0, "f32, f16 or bf16");
    }
    if !(4..=5).contains(&rank) {
        return fit.misfit(0, "4 or 5 axes: batch, channels, places");
    }
    fit.wants_dtype(1, dtype)?;
    fit.wants_rank(1, rank, "batch, outputs, coordinates")?;
    let (from, grid) = (Shape::from_slice(fit.shape(0)), Shape::from_slice(fit.shape(1)));
    if grid[0] != from[0] || grid[rank - 1] != rank - 2 {
        let (batches, axes) = (from[0], rank - 2);
        return fit.misfit(1, format!("{batches} on the first axis and {axes} on the last"));
    }
    let mut shape = from.clone();
    shape[2..].copy_from_slice(&grid[1..rank - 1]);
    if from[2..].contains(&0) && !shape.contains(&0) {
        return fit.misfit(0, "something to sample");
    }
    fit.output(dtype, &shape)
}

pub(super) fn roi_align<B>(fit: &mut Fit<'_, B>, params: RoiAlignParams) -> Result<()> {
    let RoiAlignParams { size: [height, width], samples, scale, mode: _, half_pixel: _ } = params;
    fit.wants(height > 0 && width > 0, "size", || "at least 1".into(), height.min(width))?;
    let most = RoiAlignParams::MAX_SAMPLES;
    fit.wants(samples <= most, "samples", || format!("at most {most}"), samples)?;
    fit.wants(scale.is_finite(), "scale", || "a finite number".into(), scale)?;
    let dtype = fit.dtype(0);
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return fit.misfit(0, "f32, f16 or bf16");
    }
    let &[_, channels, rows, columns] = fit.shape(0) else {
        return fit.misfit(0, "4 axes: batch, channels, height, width");
    };
    fit.wants_dtype(1, dtype)?;
    let &[regions, 4] = fit.shape(1) else {
        return fit.misfit(1, "2 axes: regions and 4 numbers");
    };
    fit.wants_index(2)?;
    fit.wants_shape(2, &[regions])?;
    if rows.min(columns) == 0 && regions.min(channels) > 0 {
        return fit.misfit(0, "something to sample");
    }
    fit.output(dtype, &[regions, channels, height as usize, width as usize])
}

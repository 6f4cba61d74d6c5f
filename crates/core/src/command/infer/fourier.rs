//! Fourier transforms.

use super::{Fit, Shape};
use crate::Result;

pub(super) fn dft<B>(
    fit: &mut Fit<'_, B>,
    axis: u8,
    inverse: bool,
    onesided: bool,
    length: usize,
) -> Result<()> {
    fit.wants_float(0)?;
    let mut shape = Shape::from_slice(fit.shape(0));
    let (axis, last) = (usize::from(axis), shape.len().saturating_sub(1));
    if shape.len() < 2 {
        return fit.misfit(0, "2 axes or more, real and imaginary parts on the last");
    }
    fit.wants(axis < last, "axis", || format!("below {last}, the last"), axis)?;
    let half = length / 2 + 1;
    let (parts, input, output): (&[usize], _, _) = match (inverse, onesided) {
        (_, false) => (&[1, 2], length, length),
        (false, true) => (&[1], length, half),
        (true, true) => (&[2], half, length),
    };
    if !parts.contains(&shape[last]) {
        return fit.misfit(0, format!("a last axis of {parts:?}, real or complex"));
    }
    fit.wants(length > 0, "length", || "1 or more".into(), length)?;
    if shape[axis] != input {
        let expected = format!("{input} elements on axis {axis}, for a length of {length}");
        return fit.misfit(0, expected);
    }
    shape[axis] = output;
    shape[last] = if inverse && onesided { 1 } else { 2 };
    fit.output(fit.dtype(0), &shape)
}

pub(super) fn stft<B>(fit: &mut Fit<'_, B>, frame: u32, hop: u32, onesided: bool) -> Result<()> {
    fit.wants_float(0)?;
    let dtype = fit.dtype(0);
    fit.wants_rank(0, 3, "[batch, samples, 1 or 2]")?;
    let [batch, samples, parts] = std::array::from_fn(|axis| fit.shape(0)[axis]);
    let most = if onesided { 1 } else { 2 };
    if !(1..=most).contains(&parts) {
        return fit.misfit(0, format!("a last axis of 1 to {most}"));
    }
    let (frame, hop) = (frame as usize, hop as usize);
    let inside = (1..=samples).contains(&frame);
    fit.wants(inside, "frame", || format!("1 to {samples} samples"), frame)?;
    fit.wants(hop > 0, "hop", || "1 or more".into(), hop)?;
    if fit.inputs() > 1 {
        fit.wants_dtype(1, dtype)?;
        fit.wants_shape(1, &[frame])?;
    }
    let bins = if onesided { frame / 2 + 1 } else { frame };
    fit.output(dtype, &[batch, (samples - frame) / hop + 1, bins, 2])
}

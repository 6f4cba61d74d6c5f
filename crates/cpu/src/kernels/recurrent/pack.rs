//! Weights in the order that products read them.

use super::super::number::{Float, Stored};
use super::Tensor;

/// Packs the rows of a weight as columns: for every gate panels of `width` rows, in each all steps of
/// the depth. The last panel of a gate is filled up with zeros.
///
/// # Safety
///
/// The weight has gates of `hidden` rows with so many steps, and nobody writes it.
pub(super) unsafe fn pack_gates<T: Stored<Compute: Float>>(
    weight: &Tensor<T>,
    direction: usize,
    depth: usize,
    (hidden, width): (usize, usize),
    to: &mut [T::Compute],
) {
    if depth == 0 {
        return;
    }
    let panels = hidden.div_ceil(width);
    for (index, to) in to.chunks_exact_mut(depth * width).enumerate() {
        let (gate, panel) = (index / panels, index % panels);
        for lane in 0..width {
            let row = panel * width + lane;
            let to = to[lane..].iter_mut().step_by(width);
            if row >= hidden {
                to.for_each(|to| *to = T::Compute::ZERO);
                continue;
            }
            // SAFETY: passed on.
            unsafe {
                let from = weight.at([direction, gate * hidden + row, 0]).cast_const();
                for (step, to) in to.enumerate() {
                    *to = from.add(step * weight.strides[2]).read().widen();
                }
            }
        }
    }
}

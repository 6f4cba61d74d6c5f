//! Products with block-quantized weights.

use super::Fit;
use super::product::{AXES, rows_of, stretch_leading};
use crate::{DType, Result};

pub(super) fn matmul<B>(fit: &mut Fit<'_, B>, bits: u8, block: u16, zeros: bool) -> Result<()> {
    fit.wants(matches!(bits, 2 | 4 | 8), "bits", || "2, 4 or 8".into(), bits)?;
    let size = block.is_power_of_two() && (16..=256).contains(&block);
    fit.wants(size, "block", || "a power of two from 16 to 256".into(), block)?;
    let dtype = fit.dtype(0);
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return fit.misfit(0, "f32, f16 or bf16");
    }
    fit.wants_dtype(1, DType::U8)?;
    for place in 2..fit.inputs() {
        // Zero points may be packed.
        if !(place == 3 && zeros && fit.dtype(place) == DType::U8) {
            fit.wants_dtype(place, dtype)?;
        }
    }
    let (a, weights) = (fit.shape(0), fit.shape(1));
    let &[.., m, k] = a else { return fit.misfit(0, format!("2 axes or more: {AXES}")) };
    let (bits, block) = (usize::from(bits), usize::from(block));
    let (blocks, bytes) = (k.div_ceil(block), block * bits / 8);
    let &[n, ..] = weights else { return fit.misfit(1, "3 axes: columns, blocks and bytes") };
    if weights != [n, blocks, bytes] || !fit.input(1).is_contiguous() {
        return fit.misfit(1, format!("dense bytes of the shape [columns, {blocks}, {bytes}]"));
    }
    let shape = rows_of(fit, dtype, m, n)?;
    fit.wants_shape(2, &[n, blocks])?;
    if zeros {
        let packed = fit.dtype(3) == DType::U8;
        let wide = if packed { blocks.saturating_mul(bits).div_ceil(8) } else { blocks };
        fit.wants_shape(3, &[n, wide])?;
    }
    fit.output(dtype, &shape)?;
    stretch_leading(fit, 0, &shape, [m, k])?;
    (3 + usize::from(zeros)..fit.inputs()).try_for_each(|place| fit.stretch(place, &shape))
}

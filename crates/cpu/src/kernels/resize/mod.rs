//! Interpolation, as ONNX's Resize defines it.

mod integer;
mod interpolate;
mod nearest;
mod taps;

#[cfg(test)]
mod tests;

use millstream_core::{DType, Operand, RawBuffer, ResizeMode, ResizeParams};

use crate::kernels::copy;
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::with_bits;
use crate::kernels::shared::parallel::Parallel;
use taps::Scaled;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn resize(
    params: &ResizeParams,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    if dst.layout.is_empty() {
        return Ok(());
    }
    let mut scaled = Scaled::all(params, dst, src);
    // Axes in the order of memory, so that neighbors are read and written together.
    let (dst, src) = {
        let mut order: Vec<usize> = (0..dst.layout.rank()).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(dst.layout.strides()[axis]));
        // Axes that change keep their order among themselves: sums are taken in it, and strides may follow from the batch.
        let mut changed = (0..order.len()).filter(|&axis| !scaled[axis].is_kept());
        for place in &mut order {
            if !scaled[*place].is_kept() {
                *place = changed.next().unwrap_or(*place);
            }
        }
        let sorted = |operand: &Operand<RawBuffer>| {
            let layout = operand.layout.permute(&order).unwrap_or(operand.layout);
            Operand { layout, ..*operand }
        };
        scaled = order.iter().map(|&axis| scaled[axis]).collect();
        (&sorted(dst), &sorted(src))
    };
    let Some(last) = scaled.iter().rposition(|axis| !axis.is_kept()) else {
        // SAFETY: passed on; no axis changes its size.
        unsafe { copy::copy(dst, src, parallel) };
        return Ok(());
    };
    let dtype = dst.layout.dtype();
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        if let ResizeMode::Nearest(rounding) = params.mode {
            let places =
                scaled.iter().map(|axis| axis.nearest(rounding)).collect::<Result<Vec<_>>>()?;
            with_bits!(dtype, Bits => {
                nearest::resize::<Bits>(&places, last, params.extrapolation, dst, src, parallel);
            });
            Ok(())
        } else {
            let taps = scaled.iter().map(|axis| axis.taps(params)).collect::<Result<Vec<_>>>()?;
            let outside = params.extrapolation;
            let direct = params.mode == ResizeMode::Linear && !params.antialias;
            // `f32` has all numbers of the other types.
            if matches!(dtype, DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64) {
                interpolate::resize::<f64>(&taps, last, direct, outside, dst, src, parallel)
            } else {
                interpolate::resize::<f32>(&taps, last, direct, outside, dst, src, parallel)
            }
        }
    }
}

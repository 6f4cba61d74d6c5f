//! Writing into a cache.
//!
//! What is written of one batch is a box, or two where it goes on at the beginning of the axis, so that copies
//! do all the work.

use millstream_core::{Layout, Operand, RawBuffer};

use crate::kernels::copy::copy;
use crate::kernels::shared::fault::{KernelFault, Result};
use crate::kernels::shared::lengths::Lengths;
use crate::kernels::shared::parallel::Parallel;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn write(
    (axis, circular): (usize, bool),
    dst: &Operand<RawBuffer>,
    [cache, update]: [&Operand<RawBuffer>; 2],
    positions: Option<&Operand<RawBuffer>>,
    parallel: &dyn Parallel,
) -> Result {
    // SAFETY: passed on.
    unsafe {
        if dst != cache {
            copy(dst, cache, parallel);
        }
        if update.layout.is_empty() {
            return Ok(());
        }
        let (longest, count) = (dst.layout.shape()[axis], update.layout.shape()[axis]);
        let positions = positions.map(|positions| Lengths::new(positions));
        for batch in 0..dst.layout.shape()[0] {
            let given = positions.map_or(0, |positions| positions.given(0, batch));
            let first = match circular {
                // The update is not empty, so neither is the axis.
                true => given.rem_euclid(longest as i64) as usize,
                false => usize::try_from(given)
                    .ok()
                    .filter(|&first| first <= longest - count)
                    .ok_or_else(|| outside(given, count, longest))?,
            };
            let before_end = count.min(longest - first);
            for (from, to, count) in [(0, first, before_end), (before_end, 0, count - before_end)] {
                if count > 0 {
                    let part = |operand: &Operand<RawBuffer>, start| {
                        let layout = part(&operand.layout, batch, axis, start, count);
                        layout.map(|layout| Operand::new(operand.buffer, layout))
                    };
                    copy(&part(dst, to)?, &part(update, from)?, parallel);
                }
            }
        }
    }
    Ok(())
}

/// One batch, and some of the places of an axis.
fn part(layout: &Layout, batch: usize, axis: usize, first: usize, count: usize) -> Result<Layout> {
    let part = layout.slice(0, batch, 1, 1).and_then(|one| one.slice(axis, first, count, 1));
    part.map_err(|error| KernelFault::new(error.to_string()))
}

#[cold]
fn outside(position: i64, count: usize, longest: usize) -> KernelFault {
    KernelFault::new(format!(
        "{count} elements from position {position} on do not fit into an axis of size {longest}"
    ))
}

#[cfg(test)]
mod tests;

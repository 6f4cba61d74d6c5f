//! Reading by index.

use std::ops::Range;

use millstream_core::{Operand, RawBuffer};

use super::{FirstOutside, Slices};
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{Result, try_share};
use crate::kernels::shared::number::with_bits;
use crate::kernels::shared::parallel::{CHUNK_ELEMENTS, Parallel, Shared};
use crate::kernels::shared::slice::copy;

/// Whole slices along an axis.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn gather(
    axis: usize,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    indices: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    // SAFETY: passed on.
    unsafe {
        let slices = Slices::along(axis, &dst.layout, &src.layout, indices);
        read(&slices, dst, src, parallel)
    }
}

/// Single elements along an axis.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn gather_elements(
    axis: usize,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    indices: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    // SAFETY: passed on.
    unsafe {
        let slices = Slices::elements(axis, &dst.layout, &src.layout, indices);
        read(&slices, dst, src, parallel)
    }
}

/// Slices by tuples.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn gather_nd(
    batch_axes: usize,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    indices: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    // SAFETY: passed on.
    unsafe {
        let slices = Slices::tuples(batch_axes, &dst.layout, &src.layout, indices);
        read(&slices, dst, src, parallel)
    }
}

unsafe fn read(
    slices: &Slices,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    let size = slices.slice.elements();
    if size == 0 {
        return Ok(());
    }
    // Large slices are split, so that a few of them keep several threads busy.
    let parts = size.div_ceil(CHUNK_ELEMENTS);
    with_bits!(dst.layout.dtype(), Bits => {
        // SAFETY: passed on; bits of the size of the elements stand for them.
        let (to, from) =
            unsafe { (Shared::<Bits>::new(base(dst)), Shared::<Bits>::new(base(src))) };
        let one = |outside: &FirstOutside, [dense, indexed, at]: [usize; 3], part: Range<usize>| {
            // SAFETY: slices are disjoint parts of the output, and the tuple, which lies inside the
            // indices, names a slice inside the input where it has a position.
            unsafe {
                if let Some(position) = outside.check(slices.tuple.position(at)) {
                    let from = from.get().add(indexed + position);
                    copy(&slices.slice, to.get().add(dense), from, part);
                }
            }
        };
        try_share(parallel, slices.all.elements() * parts, size.div_ceil(parts), |range| {
            let outside = FirstOutside::default();
            if parts == 1 {
                let len = range.len();
                slices.all.steps(range.start, len, |positions| one(&outside, positions, 0..size));
                return outside.into_result();
            }
            for item in range {
                let (slice, part) = (item / parts, item % parts);
                let part = size * part / parts..size * (part + 1) / parts;
                slices.all.steps(slice, 1, |positions| one(&outside, positions, part.clone()));
            }
            outside.into_result()
        })
    })
}

#[cfg(test)]
mod tests;

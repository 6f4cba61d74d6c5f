//! Reading by index.

use std::ops::Range;

use millstream_core::{Operand, RawBuffer};

use super::super::block::base;
use super::super::number::with_bits;
use super::super::parallel::{CHUNK_ELEMENTS, Parallel, Shared, share};
use super::super::slice::copy;
use super::Slices;

/// Whole slices along an axis.
///
/// # Safety
///
/// As for [`execute`](super::super::execute).
pub(in super::super) unsafe fn gather(
    axis: usize,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    indices: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    // SAFETY: passed on.
    unsafe {
        let slices = Slices::along(axis, &dst.layout, &src.layout, indices);
        read(&slices, dst, src, parallel);
    }
}

/// Single elements along an axis.
///
/// # Safety
///
/// As for [`execute`](super::super::execute).
pub(in super::super) unsafe fn gather_elements(
    axis: usize,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    indices: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    // SAFETY: passed on.
    unsafe {
        let slices = Slices::elements(axis, &dst.layout, &src.layout, indices);
        read(&slices, dst, src, parallel);
    }
}

/// Slices by tuples.
///
/// # Safety
///
/// As for [`execute`](super::super::execute).
pub(in super::super) unsafe fn gather_nd(
    batch_axes: usize,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    indices: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    // SAFETY: passed on.
    unsafe {
        let slices = Slices::tuples(batch_axes, &dst.layout, &src.layout, indices);
        read(&slices, dst, src, parallel);
    }
}

unsafe fn read(
    slices: &Slices,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let size = slices.slice.elements();
    if size == 0 {
        return;
    }
    // Large slices are split, so that a few of them keep several threads busy.
    let parts = size.div_ceil(CHUNK_ELEMENTS);
    with_bits!(dst.layout.dtype(), Bits => {
        // SAFETY: passed on; bits of the size of the elements stand for them.
        let (to, from) =
            unsafe { (Shared::<Bits>::new(base(dst)), Shared::<Bits>::new(base(src))) };
        let one = |[dense, indexed, at]: [usize; 3], part: Range<usize>| {
            // SAFETY: slices are disjoint parts of the output, and the tuple, which lies inside the
            // indices, names a slice inside the input or does not return.
            unsafe {
                let indexed = indexed + slices.tuple.position(at);
                copy(&slices.slice, to.get().add(dense), from.get().add(indexed), part);
            }
        };
        share(parallel, slices.all.elements() * parts, size.div_ceil(parts), |range| {
            if parts == 1 {
                let len = range.len();
                slices.all.steps(range.start, len, |positions| one(positions, 0..size));
                return;
            }
            for item in range {
                let (slice, part) = (item / parts, item % parts);
                let part = size * part / parts..size * (part + 1) / parts;
                slices.all.steps(slice, 1, |positions| one(positions, part.clone()));
            }
        });
    });
}

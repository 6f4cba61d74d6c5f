//! Copies and fills of slices of any layout, bit by bit.

use std::ops::Range;

use super::walk::Walk;

/// Copies some elements of a slice; the walk is over both.
///
/// # Safety
///
/// The slices are valid at both positions, and apart.
#[inline(always)]
pub(crate) unsafe fn copy<T: Copy>(
    slice: &Walk<2>,
    to: *mut T,
    from: *const T,
    part: Range<usize>,
) {
    let strides = [slice.inner_stride(0), slice.inner_stride(1)];
    slice.rows(part.start, part.len(), |[target, source], count| {
        // SAFETY: the walk gives positions inside the slices.
        unsafe {
            let (to, from) = (to.add(target), from.add(source));
            if count == 1 {
                to.write(from.read());
            } else if strides == [1, 1] {
                to.copy_from_nonoverlapping(from, count);
            } else {
                for i in 0..count {
                    to.add(i * strides[0]).write(from.add(i * strides[1]).read());
                }
            }
        }
    });
}

/// Gives every element of a slice one value.
///
/// # Safety
///
/// The slice is valid.
#[inline(always)]
pub(crate) unsafe fn fill<T: Copy>(slice: &Walk<1>, to: *mut T, value: T) {
    let stride = slice.inner_stride(0);
    slice.rows(0, slice.elements(), |[target], count| {
        for i in 0..count {
            // SAFETY: the walk gives positions inside the slice.
            unsafe { to.add(target + i * stride).write(value) };
        }
    });
}

//! Reads what one tap of a window sees.

use std::mem::MaybeUninit;

use super::super::number::Stored;
use super::super::parallel::Shared;
use super::window::{AXES, Segment, Tap, Window};

/// The input of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Source<T> {
    pub first: Shared<T>,
    pub batch_stride: usize,
    pub channel_stride: usize,
}

impl<T: Stored> Source<T> {
    /// Reads what a tap sees of a channel at a run of outputs, with `padding` outside of the input.
    ///
    /// # Safety
    ///
    /// The source is that of the window, the segment and the channel belong to it, `to` has the length
    /// of the segment, and nobody writes the source.
    #[inline(always)]
    pub unsafe fn read(
        &self,
        window: &Window,
        segment: &Segment,
        channel: usize,
        tap: &Tap,
        padding: T::Compute,
        to: &mut [T::Compute],
    ) {
        let mut row = segment.batch * self.batch_stride + channel * self.channel_stride;
        for index in 0..AXES - 1 {
            let axis = &window.axes[index];
            let position = (segment.place[index] * axis.step) as isize + tap.offsets[index];
            if position < 0 || position >= axis.size as isize {
                to.fill(padding);
                return;
            }
            row += position as usize * axis.stride;
        }
        let axis = &window.axes[AXES - 1];
        let start = (segment.place[AXES - 1] * axis.step) as isize + tap.offsets[AXES - 1];
        let inside = window.inside(start, segment.count);
        to[..inside.start].fill(padding);
        to[inside.end..].fill(padding);
        if inside.is_empty() {
            return;
        }
        let first = (start + (inside.start * axis.step) as isize) as usize;
        let to = &mut to[inside];
        let stride = axis.step * axis.stride;
        // SAFETY: the positions of the range lie inside the input, whose elements are initialised;
        // what is written to `to` are numbers.
        unsafe {
            let from = self.first.get().cast_const().add(row + first * axis.stride);
            match stride {
                1 => T::widen_run(std::slice::from_raw_parts(from, to.len()), uninit(to)),
                _ => {
                    for (i, to) in to.iter_mut().enumerate() {
                        *to = from.add(i * stride).read().widen();
                    }
                }
            }
        }
    }
}

/// Numbers as memory that is to be written.
///
/// # Safety
///
/// Only initialised numbers are written.
pub(in super::super) unsafe fn uninit<C: Copy>(numbers: &mut [C]) -> &mut [MaybeUninit<C>] {
    // SAFETY: the same memory; the caller keeps it initialised.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), numbers.len()) }
}

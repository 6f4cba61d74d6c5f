//! Reads what one tap of a window sees.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::window::{AXES, Segment, Tap, Window};
use crate::kernels::shared::number::{Float, Stored};
use crate::kernels::shared::parallel::SendPtr;

/// What the taps of a window see.
pub(super) trait Taps<T: Stored>: Sync {
    /// Gathers part of the matrix to panels. `seen` has room for a row of it; what stands behind the columns there
    /// goes to the panels too.
    ///
    /// # Safety
    ///
    /// The part belongs to the convolution, nobody writes its input, and `to` has room for whole panels.
    unsafe fn gather(&self, part: &Part<'_>, to: &mut [T::Compute], seen: &mut [T::Compute]);
}

/// A part of the matrix of what each tap sees at each output.
pub(super) struct Part<'a> {
    pub window: &'a Window,
    /// Its columns.
    pub segments: &'a [Segment],
    /// Columns of a panel.
    pub width: usize,
    /// The first channel of the group.
    pub channels: usize,
    /// Its rows: every tap of one channel after another.
    pub steps: Range<usize>,
}

impl Part<'_> {
    /// Writes a row to the panels.
    #[inline(always)]
    pub fn write<C: Copy>(&self, row: usize, seen: &[C], to: &mut [C]) {
        let panels = to.chunks_exact_mut(self.steps.len() * self.width);
        for (panel, seen) in panels.zip(seen.chunks_exact(self.width)) {
            panel[row * self.width..][..self.width].copy_from_slice(seen);
        }
    }
}

/// The input of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Source<T> {
    pub first: SendPtr<T>,
    pub batch_stride: usize,
    pub channel_stride: usize,
}

impl<T: Stored> Source<T> {
    /// Where the line of a channel begins that a tap sees at a run of outputs, in elements from the first one; nothing if
    /// it lies outside of the input.
    #[inline(always)]
    pub fn line(
        &self,
        window: &Window,
        segment: &Segment,
        channel: usize,
        tap: &Tap,
    ) -> Option<usize> {
        // An input without elements may have any strides; then nothing is made of the sum.
        let batch = segment.batch.wrapping_mul(self.batch_stride);
        let mut row = batch.wrapping_add(channel.wrapping_mul(self.channel_stride));
        for index in 0..AXES - 1 {
            let axis = &window.axes[index];
            let position = (segment.place[index] * axis.step) as isize + tap.offsets[index];
            if position < 0 || position >= axis.size as isize {
                return None;
            }
            row = row.wrapping_add((position as usize).wrapping_mul(axis.stride));
        }
        Some(row)
    }

    /// What a tap sees of a channel at a run of outputs: which of them lie inside of the input, the
    /// element of the first of these, and the distance to the next. None lies inside where there is no
    /// element.
    ///
    /// # Safety
    ///
    /// The source is that of the window, and the segment and the channel belong to it.
    #[inline(always)]
    pub unsafe fn run(
        &self,
        window: &Window,
        segment: &Segment,
        channel: usize,
        tap: &Tap,
    ) -> Option<(Range<usize>, *const T, usize)> {
        let row = self.line(window, segment, channel, tap)?;
        let axis = &window.axes[AXES - 1];
        let start = (segment.place[AXES - 1] * axis.step) as isize + tap.offsets[AXES - 1];
        let inside = window.inside(start, segment.count);
        if inside.is_empty() {
            return None;
        }
        let first = (start + (inside.start * axis.step) as isize) as usize;
        // SAFETY: the first position of the range lies inside the input.
        let from = unsafe { self.first.get().cast_const().add(row + first * axis.stride) };
        Some((inside, from, axis.step * axis.stride))
    }

    /// Reads what a tap sees of a channel at a run of outputs, with `padding` outside of the input.
    ///
    /// # Safety
    ///
    /// As for [`run`](Self::run); `to` has the length of the segment, and nobody writes the source.
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
        // SAFETY: passed on.
        let run = unsafe { self.run(window, segment, channel, tap) };
        let Some((inside, from, stride)) = run else { return to.fill(padding) };
        to[..inside.start].fill(padding);
        to[inside.end..].fill(padding);
        // SAFETY: the positions of the range lie inside the input, whose elements are initialized.
        unsafe { read_run(from, stride, &mut to[inside]) };
    }
}

impl<T: Stored<Compute: Float>> Taps<T> for Source<T> {
    unsafe fn gather(&self, part: &Part<'_>, to: &mut [T::Compute], seen: &mut [T::Compute]) {
        let taps = &part.window.taps;
        for (index, step) in part.steps.clone().enumerate() {
            let (channel, tap) = (part.channels + step / taps.len(), &taps[step % taps.len()]);
            for segment in part.segments {
                let seen = &mut seen[segment.column..][..segment.count];
                // SAFETY: passed on.
                unsafe {
                    self.read(part.window, segment, channel, tap, T::Compute::ZERO, seen);
                }
            }
            part.write(index, seen, to);
        }
    }
}

/// Reads numbers in the type that is computed in.
///
/// # Safety
///
/// So many elements with that distance may be read.
#[inline(always)]
pub(crate) unsafe fn read_run<T: Stored>(from: *const T, stride: usize, to: &mut [T::Compute]) {
    // SAFETY: passed on; what is written to `to` are numbers.
    unsafe {
        if stride == 1 {
            T::widen_run(std::slice::from_raw_parts(from, to.len()), uninit(to));
        } else {
            for (i, to) in to.iter_mut().enumerate() {
                *to = from.add(i * stride).read().widen();
            }
        }
    }
}

/// Numbers as memory that is to be written.
///
/// # Safety
///
/// Only initialized numbers are written.
pub(crate) unsafe fn uninit<C: Copy>(numbers: &mut [C]) -> &mut [MaybeUninit<C>] {
    // SAFETY: the same memory; the caller keeps it initialized.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), numbers.len()) }
}

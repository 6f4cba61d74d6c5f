//! Convolutions whose taps are moved by data: as others, but that a tap sees what lies between four elements.

use millstream_core::{DType, DeformConvOperands, DeformConvParams, Epilogue, Operand, RawBuffer};

use super::epilogue::{ConvEpilogue, WindowedOperand};
use super::gather::{Part, Taps};
use super::product::{Conv, TILE_COLUMNS};
use super::weight::Weight;
use super::window::{AXES, Window};
use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::{Stored, StoredFloat, with_f32};
use crate::kernels::shared::parallel::{Parallel, Shared};
use crate::kernels::shared::simd::Isa;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(in super::super) unsafe fn deform_conv(
    params: &DeformConvParams,
    operands: &DeformConvOperands<'_, RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    if operands.dst.layout.is_empty() {
        return Ok(());
    }
    // SAFETY: passed on; the type is that of all operands.
    with_f32!(operands.dst.layout.dtype(), T => unsafe { typed::<T>(params, operands, parallel) })
}

unsafe fn typed<T: StoredFloat<Compute = f32>>(
    params: &DeformConvParams,
    operands: &DeformConvOperands<'_, RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    let (dst, src) = (&operands.dst.layout, &operands.src.layout);
    let (weight, groups) = (&operands.weight.layout, params.conv.groups as usize);
    let window = &Window::of_conv(&params.conv, dst, src, weight)?;
    let rows = dst.shape()[1] / groups;
    let [row, channel] = [weight.strides()[0], weight.strides()[1]];
    let strides = [rows.saturating_mul(row), row, channel];
    // SAFETY: passed on; the output is not empty, and neither are operands of its shape.
    let conv = unsafe {
        let placed = |operand: &Operand<RawBuffer>| WindowedOperand::<T>::new(window, operand);
        Conv {
            window,
            batch: dst.shape()[0],
            groups,
            rows,
            channels: src.shape()[1] / groups,
            source: Moved {
                first: Shared::<T>::new(base(operands.src)),
                strides: [src.strides()[0], src.strides()[1]],
                is_empty: src.is_empty(),
                together: src.shape()[1] / params.offset_groups as usize,
                offset: placed(operands.offset),
                mask: operands.mask.map(placed),
            },
            weight: Weight::new(base(operands.weight), strides, &window.taps)?,
            epilogue: ConvEpilogue {
                epilogue: &Epilogue::default(),
                dst: placed(operands.dst),
                added: [operands.bias.map(placed), None],
            },
        }
    };
    // SAFETY: passed on; the ISA was detected.
    unsafe { conv.run(Isa::detect(), parallel) }
}

/// The input of a convolution whose taps are moved.
struct Moved<T> {
    first: Shared<T>,
    /// Of batch elements and channels.
    strides: [usize; 2],
    is_empty: bool,
    /// Channels that share offsets.
    together: usize,
    offset: WindowedOperand<T>,
    mask: Option<WindowedOperand<T>>,
}

/// The four elements around a place, and what they count. Those that count nothing are the first of their batch.
#[derive(Clone, Copy)]
struct Corners {
    places: [usize; 4],
    shares: [f32; 4],
    mask: f32,
}

const NOWHERE: Corners = Corners { places: [0; 4], shares: [0.0; 4], mask: 1.0 };

impl<T: Stored<Compute = f32>> Taps<T> for Moved<T> {
    unsafe fn gather(&self, part: &Part<'_>, to: &mut [f32], seen: &mut [f32]) {
        let (taps, steps) = (part.window.taps.len(), &part.steps);
        let columns = part.segments.iter().map(|segment| segment.count).sum();
        let mut corners = [NOWHERE; TILE_COLUMNS];
        for tap in 0..taps {
            // The channels whose tap is one of the steps.
            let [first, last] = [steps.start, steps.end].map(|step| (step + taps - 1 - tap) / taps);
            let mut found = None;
            for channel in first..last {
                let all = part.channels + channel;
                let group = all / self.together;
                if found != Some(group) {
                    found = Some(group);
                    // SAFETY: passed on.
                    unsafe { self.find(part, group, tap, &mut corners) };
                }
                let channel_start = all.wrapping_mul(self.strides[1]);
                for (seen, corners) in seen[..columns].iter_mut().zip(&corners) {
                    // SAFETY: corners lie inside the input.
                    *seen = unsafe { self.sample(channel_start, corners) };
                }
                part.write(channel * taps + tap - steps.start, seen, to);
            }
        }
    }
}

impl<T: Stored<Compute = f32>> Moved<T> {
    /// Finds what a tap sees at the columns of a part.
    ///
    /// # Safety
    ///
    /// As for [`gather`](Taps::gather); the group is one of offsets.
    unsafe fn find(&self, part: &Part<'_>, group: usize, tap: usize, to: &mut [Corners]) {
        let Window { axes, taps } = part.window;
        let moved = group * taps.len() + tap;
        let [down, across] = [&axes[AXES - 2], &axes[AXES - 1]];
        let by = [AXES - 2, AXES - 1].map(|axis| taps[tap].offsets[axis]);
        for segment in part.segments {
            // SAFETY: there are two offsets for each tap of each group, and one number of the mask.
            let (moves, mask) = unsafe {
                let moves = [0, 1].map(|axis| self.offset.run(2 * moved + axis, segment));
                (moves, self.mask.map(|mask| mask.run(moved, segment)))
            };
            // SAFETY: the segment has so many outputs.
            let read = |(first, stride): (*mut T, usize), index: usize| unsafe {
                first.add(index * stride).read().widen()
            };
            let y = (segment.place[AXES - 2] * down.step) as isize + by[0];
            for (index, to) in to[segment.column..][..segment.count].iter_mut().enumerate() {
                let x = ((segment.place[AXES - 1] + index) * across.step) as isize + by[1];
                let rows = around(y as f32 + read(moves[0], index), down.size);
                let columns = around(x as f32 + read(moves[1], index), across.size);
                let start = segment.batch.wrapping_mul(self.strides[0]);
                *to = Corners { mask: mask.map_or(1.0, |mask| read(mask, index)), ..NOWHERE };
                for corner in 0..4 {
                    let ((row, high), (column, wide)) = (rows[corner / 2], columns[corner % 2]);
                    let place = row.wrapping_mul(down.stride) + column.wrapping_mul(across.stride);
                    to.places[corner] = start.wrapping_add(place);
                    to.shares[corner] = high * wide;
                }
            }
        }
    }

    /// # Safety
    ///
    /// The corners lie inside the input, and so does the channel.
    #[inline(always)]
    unsafe fn sample(&self, channel: usize, corners: &Corners) -> f32 {
        let mut sum = 0.0;
        if !self.is_empty {
            for (&place, &share) in corners.places.iter().zip(&corners.shares) {
                // SAFETY: passed on.
                let value = unsafe { self.first.get().add(channel + place).read() }.widen();
                // What counts nothing is 0, even where it is not finite.
                sum += if share == 0.0 { 0.0 } else { share * value };
            }
        }
        sum * corners.mask
    }
}

/// The two elements around a place on an axis, and what they count. Outside nothing counts, and what is no number
/// is outside.
#[inline(always)]
fn around(place: f32, size: usize) -> [(usize, f32); 2] {
    if !(place > -1.0 && place < size as f32) {
        return [(0, 0.0); 2];
    }
    let cut = place as isize;
    let low = if cut as f32 > place { cut - 1 } else { cut };
    let part = place - low as f32;
    let tap = |index: isize, share: f32| match usize::try_from(index) {
        Ok(index) if index < size => (index, share),
        _ => (0, 0.0),
    };
    [tap(low, 1.0 - part), tap(low + 1, part)]
}

#[cfg(test)]
mod tests;

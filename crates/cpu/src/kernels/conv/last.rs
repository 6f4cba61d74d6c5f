//! Convolutions with the channels last: those of one place are neighbors in memory, in the output and in the weights.
//!
//! The rows of the product are the places of a part of a line, its columns the output channels. What the taps of a row of the
//! window see at a place lies in one piece of the input, and at the next place a step further, so the product reads it
//! there. Where a tap sees padding, the line is copied with the padding around it.

use std::ops::Range;

use super::product::{Conv, FEW_TILES, PRODUCTS_PER_ELEMENT};
use super::taps::SeenTap;
use super::window::{AXES, Segment};
use crate::kernels::matmul::micro_kernel::GemmElement;
use crate::kernels::matmul::panels::{PanelElement, Product};
use crate::kernels::shared::fault::{Result, try_parallel_for};
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::{reserve, with_scratch};
use crate::kernels::shared::simd::Isa;

/// Places of a tile of the result.
const TILE_PLACES: usize = 112;

/// Numbers that a line may have for several taps to be read at once.
const LINE: usize = 1 << 18;

/// Channels from which on vectors of them are filled on every ISA.
const LEAST_CHANNELS: usize = 16;

/// Taps that one product goes through: their numbers, and the distance of their places.
#[derive(Clone, Copy)]
struct TapRun {
    first: usize,
    count: usize,
}

/// The columns of a tile: the first one, those in whole panels, and the rest.
#[derive(Clone, Copy)]
struct Columns {
    first: usize,
    whole: usize,
    rest: usize,
}

impl<T: StoredFloat<Compute: PanelElement>> Conv<'_, T> {
    /// Whether output and weights have their channels last.
    pub fn is_last(&self) -> bool {
        let depthwise = self.channels == 1 && self.rows == 1;
        let suits =
            !depthwise || (self.groups >= LEAST_CHANNELS && self.source.channel_stride == 1);
        T::DIRECT && suits && self.weight.is_last(self.rows) && self.epilogue.dst.is_last()
    }

    /// # Safety
    ///
    /// As for [`run`](Self::run), for a convolution with the channels last.
    pub unsafe fn run_last(&self, isa: Isa, parallel: &dyn Parallel) -> Result {
        if self.channels == 1 && self.rows == 1 {
            // SAFETY: passed on.
            return unsafe { self.run_depthwise_last(isa, parallel) };
        }
        let places = self.batch * self.window.outputs();
        if places == 0 {
            return Ok(());
        }
        let k = self.channels.saturating_mul(self.window.taps.len());
        let width = T::Compute::width(isa);
        let (down, panels) = (places.div_ceil(TILE_PLACES), self.rows.div_ceil(width));
        // Few tiles are split, so that several threads have about as much to do each.
        let across = FEW_TILES.div_ceil(self.groups * down).min(panels);
        let most = panels.div_ceil(across) * width;
        let across = self.rows.div_ceil(most);
        let area = places.min(TILE_PLACES) * self.rows.min(most);
        let work = area.saturating_mul(k) / PRODUCTS_PER_ELEMENT + area;
        try_parallel_for(parallel, self.groups * down * across, work, |range| {
            let mut segments = Vec::new();
            for tile in range {
                let (group, tile) = (tile / (down * across), tile % (down * across));
                let (first, column) = (tile / across * TILE_PLACES, tile % across * most);
                let count = TILE_PLACES.min(places - first);
                self.window.segments(first, count, &mut segments);
                let all = most.min(self.rows - column);
                let columns =
                    Columns { first: column, whole: all / width * width, rest: all % width };
                // SAFETY: tiles are disjoint parts of the output; the rest is passed on.
                unsafe { self.tile_last(isa, group, &segments, columns)? };
            }
            Ok(())
        })
    }

    /// The runs of taps whose products are made at once.
    fn tap_runs(&self, places: usize) -> impl Iterator<Item = TapRun> {
        let taps = &self.window.taps;
        let along = self.window.taps_of_a_row();
        let step = self.window.axes[AXES - 1].step;
        // SAFETY: the first group, row and every tap belong to the weights, and nothing is read.
        let weight = |tap: usize| unsafe { self.weight.column(0, 0, tap) };
        let joined = (1..taps.len()).filter(|tap| tap % along != 0).all(|tap| {
            let neighbors = taps[tap - 1].offsets[AXES - 1] + 1 == taps[tap].offsets[AXES - 1];
            let ((before, next), (after, _)) = (weight(tap - 1), weight(tap));
            neighbors && before.wrapping_add(self.channels.wrapping_mul(next)) == after
        });
        let line = places.saturating_mul(step).saturating_add(along).saturating_mul(self.channels);
        let count = if joined && step <= along && line <= LINE { along } else { 1 };
        (0..taps.len()).step_by(count.max(1)).map(move |first| TapRun { first, count })
    }

    unsafe fn tile_last(
        &self,
        isa: Isa,
        group: usize,
        segments: &[Segment],
        columns: Columns,
    ) -> Result {
        let width = T::Compute::width(isa);
        let stride = columns.whole + if columns.rest > 0 { width } else { 0 };
        let longest = segments.iter().map(|segment| segment.count).max().unwrap_or(0);
        let count: usize = segments.iter().map(|segment| segment.count).sum();
        let (channels, step) = (self.channels, self.window.axes[AXES - 1].step);
        let along = self.tap_runs(longest).next().map_or(1, |run| run.count);
        let line = if along > 1 { (longest - 1) * step + along } else { longest };
        let k = channels.saturating_mul(self.window.taps.len());
        let packed = if columns.rest > 0 { k.saturating_mul(width) } else { 0 };
        let sizes = [count * stride, line.saturating_mul(channels), packed];
        with_scratch(sizes, |[sums, line, packed]: [&mut [T::Compute]; 3]| {
            if columns.rest > 0 {
                // SAFETY: passed on; there is room for all steps.
                unsafe { self.pack_rest(group, columns, width, packed) };
            }
            for segment in segments {
                let sums = &mut sums[segment.column * stride..][..segment.count * stride];
                let mut begin = true;
                for run in self.tap_runs(longest) {
                    // SAFETY: passed on.
                    let seen = unsafe { self.seen(group, segment, run, line) };
                    let Some((lhs, lhs_row_stride)) = seen else { continue };
                    // SAFETY: passed on; the columns belong to the group.
                    let (rhs, next) =
                        unsafe { self.weight.column(group, columns.first, run.first) };
                    let product = Product {
                        rows: segment.count,
                        columns: columns.whole,
                        k: run.count * channels,
                        lhs,
                        lhs_row_stride,
                        lhs_k_stride: 1,
                        rhs: rhs.cast(),
                        rhs_panel_stride: width,
                        rhs_k_stride: next,
                        sums: sums.as_mut_ptr(),
                        stride,
                        begin,
                    };
                    // SAFETY: the areas have the sizes that the products say; taps that are joined have their weights one
                    // behind the other.
                    unsafe {
                        product.run(isa);
                        if columns.rest > 0 {
                            Product {
                                columns: columns.rest,
                                rhs: packed.as_ptr().add(run.first * channels * width),
                                rhs_k_stride: width,
                                sums: sums.as_mut_ptr().add(columns.whole),
                                ..product
                            }
                            .run(isa);
                        }
                    }
                    begin = false;
                }
                if begin {
                    sums.fill(T::Compute::ZERO);
                }
                let channel = group * self.rows + columns.first;
                let channels = columns.whole + columns.rest;
                // SAFETY: passed on.
                unsafe { self.epilogue.store_last((channel, channels), segment, sums, stride) };
            }
        })
    }

    /// Copies the columns behind the last whole panel, filled up with zeros.
    unsafe fn pack_rest(
        &self,
        group: usize,
        columns: Columns,
        width: usize,
        to: &mut [T::Compute],
    ) {
        let mut steps = to.chunks_exact_mut(width);
        for tap in 0..self.window.taps.len() {
            for (channel, to) in (0..self.channels).zip(&mut steps) {
                // SAFETY: passed on; the weights have the type computed in.
                let from = unsafe {
                    let row = columns.first + columns.whole;
                    let (first, next) = self.weight.column(group, row, tap);
                    let first = first.add(channel * next).cast::<T::Compute>();
                    std::slice::from_raw_parts(first, columns.rest)
                };
                to[..columns.rest].copy_from_slice(from);
                to[columns.rest..].fill(T::Compute::ZERO);
            }
        }
    }

    /// What a run of taps sees at a run of places: where it lies for the first place, and the distance to the next. Nothing
    /// if they see padding alone.
    unsafe fn seen(
        &self,
        group: usize,
        segment: &Segment,
        run: TapRun,
        line: &mut [T::Compute],
    ) -> Option<(*const T::Compute, usize)> {
        let (window, source) = (self.window, &self.source);
        let tap = &window.taps[run.first];
        let row = source.line(window, segment, group * self.channels, tap)?;
        let axis = &window.axes[AXES - 1];
        let start = (segment.place[AXES - 1] * axis.step) as isize + tap.offsets[AXES - 1];
        let end = start + ((segment.count - 1) * axis.step + run.count) as isize;
        let whole = start >= 0 && end <= axis.size as isize;
        let dense = source.channel_stride == 1 && (run.count == 1 || axis.stride == self.channels);
        // SAFETY: positions from 0 to the size of the axis lie inside the input, which has the type computed in.
        let at = |position: usize| unsafe {
            source.first.get().cast_const().cast::<T::Compute>().add(row + position * axis.stride)
        };
        if whole && dense {
            return Some((at(start as usize), axis.step * axis.stride));
        }
        let (spacing, next) =
            if run.count > 1 { (1, axis.step * self.channels) } else { (axis.step, self.channels) };
        let count = if run.count > 1 { (end - start) as usize } else { segment.count };
        let inside = positions_inside(start, spacing, count, axis.size);
        let (before, rest) = line.split_at_mut(inside.start * self.channels);
        let (copied, behind) = rest.split_at_mut(inside.len() * self.channels);
        before.fill(T::Compute::ZERO);
        behind[..(count - inside.end) * self.channels].fill(T::Compute::ZERO);
        if !inside.is_empty() {
            let from = at((start + (inside.start * spacing) as isize) as usize);
            let distance = spacing * axis.stride;
            // SAFETY: the places of the range lie inside the input.
            unsafe { copy_places(from, [distance, source.channel_stride], self.channels, copied) };
        }
        Some((line.as_ptr(), next))
    }

    /// # Safety
    ///
    /// As for [`run_last`](Self::run_last), for groups of one channel.
    unsafe fn run_depthwise_last(&self, isa: Isa, parallel: &dyn Parallel) -> Result {
        let wide = self.window.axes[AXES - 1].outputs;
        let lines = self.batch * self.window.outputs() / wide.max(1);
        let (channels, taps) = (self.groups, self.window.taps.len());
        let work = wide.saturating_mul(channels).saturating_mul(taps) / PRODUCTS_PER_ELEMENT;
        try_parallel_for(parallel, lines, work, |range| {
            let (mut segments, mut seen) = (Vec::new(), Vec::new());
            reserve(&mut seen, taps)?;
            for line in range {
                for first in (0..wide).step_by(TILE_PLACES) {
                    let count = TILE_PLACES.min(wide - first);
                    self.window.segments(line * wide + first, count, &mut segments);
                    let segment = &segments[0];
                    with_scratch([count * channels], |[sums]: [&mut [T::Compute]; 1]| {
                        let (inside, next) = self.seen_by_all_of_a_row(segment);
                        for (index, sums) in sums.chunks_exact_mut(channels).enumerate() {
                            // Where every tap of a row sees the input, each next place sees what is a step further.
                            let again = inside.contains(&index) && index > inside.start;
                            if !again {
                                self.see(segment, index, &mut seen);
                            }
                            let shift = if again { (index - inside.start) * next } else { 0 };
                            // SAFETY: every tap that is seen has all channels in input and weights.
                            unsafe { T::Compute::sum_taps(&seen, shift, sums, isa) };
                        }
                        // SAFETY: lines are disjoint parts of the output; the rest is passed on.
                        unsafe {
                            self.epilogue.store_last((0, channels), segment, sums, channels);
                        }
                    })?;
                }
            }
            Ok(())
        })
    }

    /// The places of a segment at which every tap of a row sees the input, and the distance of what they see.
    fn seen_by_all_of_a_row(&self, segment: &Segment) -> (Range<usize>, usize) {
        let axis = &self.window.axes[AXES - 1];
        let start = (segment.place[AXES - 1] * axis.step) as isize;
        let along = self.window.taps_of_a_row().min(self.window.taps.len());
        let inside = self.window.taps[..along].iter().fold(0..segment.count, |all, tap| {
            let first = start + tap.offsets[AXES - 1];
            let one = positions_inside(first, axis.step, segment.count, axis.size);
            all.start.max(one.start)..all.end.min(one.end)
        });
        (inside, axis.step * axis.stride)
    }

    /// Lists the taps that see the input at a place of a segment.
    fn see(&self, segment: &Segment, index: usize, to: &mut Vec<SeenTap<T::Compute>>) {
        to.clear();
        let axis = &self.window.axes[AXES - 1];
        let place = ((segment.place[AXES - 1] + index) * axis.step) as isize;
        let along = self.window.taps_of_a_row().max(1);
        for (row, taps) in self.window.taps.chunks(along).enumerate() {
            let Some(line) = self.source.line(self.window, segment, 0, &taps[0]) else { continue };
            for (number, tap) in taps.iter().enumerate() {
                let position = place + tap.offsets[AXES - 1];
                if position < 0 || position >= axis.size as isize {
                    continue;
                }
                let at = line + position as usize * axis.stride;
                // SAFETY: the position lies inside the input, and the tap belongs to the weights.
                let (input, (weight, _)) = unsafe {
                    let input = self.source.first.get().cast_const().add(at);
                    (input, self.weight.column(0, 0, row * along + number))
                };
                to.push(SeenTap { input: input.cast(), weight: weight.cast() });
            }
        }
    }
}

/// Which of `count` positions, a step apart, lie from 0 to the size.
fn positions_inside(start: isize, step: usize, count: usize, size: usize) -> Range<usize> {
    let steps = |distance: isize| (distance.max(0) as usize).div_ceil(step).min(count);
    let end = steps(size as isize - start);
    steps(-start).min(end)..end
}

/// Copies the channels of several places. `strides` are the distances of places and of channels.
///
/// # Safety
///
/// So many places and channels may be read.
unsafe fn copy_places<F: Copy>(
    from: *const F,
    [place, channel]: [usize; 2],
    channels: usize,
    to: &mut [F],
) {
    // SAFETY: passed on.
    unsafe {
        if channel == 1 && place == channels {
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
            return;
        }
        if channel == 1 {
            for (index, to) in to.chunks_exact_mut(channels).enumerate() {
                std::ptr::copy_nonoverlapping(from.add(index * place), to.as_mut_ptr(), channels);
            }
            return;
        }
        // Places are usually neighbors then, and there are more of them than channels.
        for index in 0..channels {
            let from = from.add(index * channel);
            for (number, to) in to[index..].iter_mut().step_by(channels).enumerate() {
                *to = *from.add(number * place);
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Depthwise convolutions with the channels last: neighboring channels are computed with vectors, each from what the taps see
//! of it.

use std::ops::Range;

use super::last::{BLOCK, TILE_PLACES, positions_inside};
use super::product::{Conv, PRODUCTS_PER_ELEMENT};
use super::taps::{MANY, SOME, SeenPlaces, SeenTap};
use super::window::{AXES, Segment};
use crate::kernels::matmul::micro_kernel::GemmElement;
use crate::kernels::matmul::panels::PanelElement;
use crate::kernels::shared::fault::{Result, try_parallel_for};
use crate::kernels::shared::number::StoredFloat;
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::{reserve, with_scratch};
use crate::kernels::shared::simd::Isa;

impl<T: StoredFloat<Compute: PanelElement>> Conv<'_, T> {
    /// # Safety
    ///
    /// As for [`run_last`](Self::run_last), for groups of one channel.
    pub unsafe fn run_depthwise_last(&self, isa: Isa, parallel: &dyn Parallel) -> Result {
        let wide = self.window.axes[AXES - 1].outputs;
        let lines = self.batch * self.window.outputs() / wide.max(1);
        let shared = parallel.is_shared();
        let (channels, taps) = (self.groups, self.window.taps.len());
        let block = (BLOCK / channels / MANY * MANY).clamp(MANY, TILE_PLACES);
        // A short line is not cut: its ends, where padding is seen, are slow already.
        let parts = if wide <= MANY + MANY / 2 { 1 } else { wide.div_ceil(block) };
        let block = wide.div_ceil(parts).next_multiple_of(SOME).min(wide);
        let work = block.saturating_mul(channels).saturating_mul(taps) / PRODUCTS_PER_ELEMENT;
        try_parallel_for(parallel, lines * parts, work, |range| {
            let (mut segments, mut seen) = (Vec::new(), Vec::new());
            reserve(&mut seen, taps)?;
            for part in range {
                let (line, first) = (part / parts, part % parts * block);
                let count = block.min(wide.saturating_sub(first));
                if count == 0 {
                    continue;
                }
                self.window.segments(line * wide + first, count, &mut segments);
                let segment = &segments[0];
                with_scratch([count * channels], |[sums]: [&mut [T::Compute]; 1]| {
                    // SAFETY: parts of lines are disjoint parts of the output; the rest is passed on.
                    unsafe {
                        self.sum_segment(segment, &mut seen, sums, (isa, shared));
                        self.epilogue.store_last((0, channels), segment, sums, channels);
                    }
                })?;
            }
            Ok(())
        })
    }

    unsafe fn sum_segment(
        &self,
        segment: &Segment,
        seen: &mut Vec<SeenTap<T::Compute>>,
        sums: &mut [T::Compute],
        (isa, shared): (Isa, bool),
    ) {
        let channels = self.groups;
        let (inside, next) = self.seen_by_all_of_a_row(segment);
        // SAFETY: passed on.
        let result = shared.then(|| unsafe { self.epilogue.dst.run(0, segment) });
        let mut place = 0;
        while place < segment.count {
            // Where every tap of a row sees the input, each next place sees what is a step further.
            let count = if inside.contains(&place) { inside.end - place } else { 1 };
            self.see(segment, place, seen);
            let sums = &mut sums[place * channels..][..count * channels];
            let result = result
                .map(|(first, next)| (first.wrapping_add(place * next).cast_const().cast(), next));
            let seen = SeenPlaces { taps: seen, next, channels, result };
            // SAFETY: every tap that is seen has all channels of all these places in the input, and in the weights.
            unsafe { T::Compute::sum_taps(&seen, sums, isa) };
            place += count;
        }
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

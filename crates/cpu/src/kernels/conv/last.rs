//! Convolutions with the channels last: those of one place are neighbors in memory, in the output and in the weights.
//!
//! The rows of the product are the places of a part of a line, its columns the output channels. What the taps of a row of the
//! window see at a place lies in one piece of the input, and at the next place a step further, so the product reads it
//! there. Where a tap sees padding, a few places are copied with the padding around them.

use std::ops::Range;

use smallvec::SmallVec;

use super::places::{PlaceElement, PlaceTile, Width, columns_of};
use super::product::{Conv, FEW_TILES, PRODUCTS_PER_ELEMENT};
use super::window::{AXES, Segment};
use crate::kernels::matmul::panels::PanelElement;
use crate::kernels::matmul::ranges::even_ranges;
use crate::kernels::shared::fault::{Result, try_parallel_for};
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::with_scratch;
use crate::kernels::shared::simd::Isa;
use crate::kernels::shared::streaming::prefetch_write;

/// Places of a tile of the result.
pub(super) const TILE_PLACES: usize = 112;

/// Numbers that a line may have for several taps to be read at once.
const LINE: usize = 1 << 18;

/// Numbers whose epilogue is computed at a time, so that they are still in the first-level cache.
pub(super) const BLOCK: usize = 4096;

/// Bytes of weights up to which they stay in the second-level cache while few places pass at a time.
const CACHED: usize = 1 << 19;

/// Channels from which on vectors of them are filled on every ISA.
const LEAST_CHANNELS: usize = 16;

/// What all tiles of a convolution share.
struct Shared<'a, F> {
    isa: Isa,
    /// Whether several threads may compute, so that another core may have the lines of a result.
    several: bool,
    /// Taps that one product goes through.
    along: usize,
    /// Places that are copied at a time, if they are.
    copied: usize,
    /// Places that are computed at a time.
    block: usize,
    /// Whether the input is read in place where it has no padding.
    dense: bool,
    /// The least and the largest offset of a tap along a line.
    reach: [isize; 2],
    /// Columns in whole panels, and how wide the rest is.
    whole: usize,
    rest: Width,
    /// The weights of the rest, filled up with zeros, where it is not read in place.
    packed: &'a [F],
}

/// Some places of a segment, and whether what they see is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    places: Range<usize>,
    copied: bool,
}

impl<T: StoredFloat<Compute: PanelElement>> Conv<'_, T> {
    /// Whether output and weights have their channels last.
    pub fn is_last(&self) -> bool {
        let depthwise = self.channels == 1 && self.rows == 1;
        let suits =
            !depthwise || (self.groups >= LEAST_CHANNELS && self.source.channel_stride == 1);
        // Without channels there is nothing to copy: the other form fills with zeros.
        self.channels > 0
            && T::DIRECT
            && suits
            && self.weight.is_last(self.groups, self.rows)
            && self.epilogue.dst.is_last()
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
        let lanes = T::Compute::lanes(isa);
        let (width, left) = (2 * lanes, self.rows % (2 * lanes));
        let rest = T::Compute::width_of(left, isa);
        let rest_columns = if left == 0 { 0 } else { columns_of(rest, lanes) };
        let in_place = rest_columns == left;
        let size = if in_place { 0 } else { self.groups.saturating_mul(k) };
        with_scratch([size.saturating_mul(rest_columns)], |[packed]: [&mut [T::Compute]; 1]| {
            if !in_place {
                // SAFETY: passed on; there is room for all steps of all groups.
                unsafe { self.pack_rest(left, rest_columns, packed) };
            }
            let whole = self.rows - left;
            let several = parallel.is_shared();
            let shared = self.shared((isa, several), rest, whole, packed);
            let tile_places = self.tile_places(places, several);
            let (down, panels) = (places.div_ceil(tile_places), self.rows.div_ceil(width));
            // Few tiles are split, so that several threads have about as much to do each.
            let across = FEW_TILES.div_ceil(self.groups * down).min(panels);
            let most = panels.div_ceil(across) * width;
            let across = self.rows.div_ceil(most);
            let area = tile_places * self.rows.min(most);
            let work = area.saturating_mul(k) / PRODUCTS_PER_ELEMENT + area;
            try_parallel_for(parallel, self.groups * down * across, work, |range| {
                let mut segments = Vec::new();
                for tile in range {
                    let (group, tile) = (tile / (down * across), tile % (down * across));
                    let (first, column) = (tile / across * tile_places, tile % across * most);
                    let count = tile_places.min(places - first);
                    self.window.segments(first, count, &mut segments);
                    let columns = column..self.rows.min(column + most);
                    // SAFETY: tiles are disjoint parts of the output; the rest is passed on.
                    unsafe { self.tile_last(&shared, group, &segments, columns)? };
                }
                Ok(())
            })
        })?
    }

    /// Places of each tile but the last. For several threads: as many tiles as two share evenly, of whole lines where these
    /// are short.
    fn tile_places(&self, places: usize, several: bool) -> usize {
        if !several {
            return places.min(TILE_PLACES);
        }
        let down = places.div_ceil(TILE_PLACES);
        let down = if down > 1 { down.next_multiple_of(2) } else { 1 };
        let each = places.div_ceil(down);
        let wide = self.window.axes[AXES - 1].outputs;
        // What is cut off of a line has to be copied where it sees padding.
        if wide <= each { each.next_multiple_of(wide) } else { each }
    }

    fn shared<'a>(
        &self,
        (isa, several): (Isa, bool),
        rest: Width,
        whole: usize,
        packed: &'a [T::Compute],
    ) -> Shared<'a, T::Compute> {
        let taps = &self.window.taps;
        let axis = &self.window.axes[AXES - 1];
        let along = self.taps_at_once();
        let offsets = || taps.iter().map(|tap| tap.offsets[AXES - 1]);
        let reach = [offsets().min().unwrap_or(0), offsets().max().unwrap_or(0)];
        let unit = self.source.channel_stride == 1;
        let dense = unit && (along == 1 || axis.stride == self.channels);
        let most = T::Compute::max_places(if whole > 0 { Width::Two } else { rest }, isa);
        // What is not read in place is copied once for many places, unless that takes much memory.
        let numbers = self.channels.saturating_mul(taps.len()).saturating_mul(axis.step);
        let copied = if dense { most } else { (16 * BLOCK / numbers.max(1)).clamp(most, 112) };
        let columns = self.rows.max(1);
        let weights = columns.saturating_mul(self.channels).saturating_mul(taps.len());
        let cached = weights.saturating_mul(size_of::<T>()) <= CACHED;
        let fits = (BLOCK / columns) / most * most;
        let block = fits.max(if cached { most } else { 4 * most });
        Shared { isa, several, along, copied, block, dense, reach, whole, rest, packed }
    }

    /// How many taps along a line are read at once: all of a row of the window, or one.
    fn taps_at_once(&self) -> usize {
        let taps = &self.window.taps;
        let along = self.window.taps_of_a_row();
        let axis = &self.window.axes[AXES - 1];
        // SAFETY: the first group, row and every tap belong to the weights, and nothing is read.
        let weight = |tap: usize| unsafe { self.weight.column(0, 0, tap) };
        let joined = (1..taps.len()).filter(|tap| tap % along != 0).all(|tap| {
            let neighbors = taps[tap - 1].offsets[AXES - 1] + 1 == taps[tap].offsets[AXES - 1];
            let ((before, next), (after, _)) = (weight(tap - 1), weight(tap));
            neighbors && before.wrapping_add(self.channels.wrapping_mul(next)) == after
        });
        let places = axis.outputs.min(TILE_PLACES);
        let line = places.saturating_mul(axis.step).saturating_add(along);
        let short = line.saturating_mul(self.channels) <= LINE;
        if joined && axis.step <= along && short { along.max(1) } else { 1 }
    }

    /// Copies the columns behind the last whole panel, filled up with zeros.
    unsafe fn pack_rest(&self, left: usize, width: usize, to: &mut [T::Compute]) {
        let mut steps = to.chunks_exact_mut(width);
        for group in 0..self.groups {
            for tap in 0..self.window.taps.len() {
                for (channel, to) in (0..self.channels).zip(&mut steps) {
                    // SAFETY: passed on; the weights have the type computed in.
                    let from = unsafe {
                        let (first, next) = self.weight.column(group, self.rows - left, tap);
                        let first = first.add(channel * next).cast::<T::Compute>();
                        std::slice::from_raw_parts(first, left)
                    };
                    to[..left].copy_from_slice(from);
                    to[left..].fill(T::Compute::ZERO);
                }
            }
        }
    }

    /// The places of a segment that are computed together.
    fn pieces(&self, shared: &Shared<'_, T::Compute>, segment: &Segment) -> SmallVec<[Piece; 4]> {
        let axis = &self.window.axes[AXES - 1];
        let (count, most) = (segment.count, shared.copied);
        let start = (segment.place[AXES - 1] * axis.step) as isize;
        let [first, last] = shared
            .reach
            .map(|offset| positions_inside(start + offset, axis.step, count, axis.size));
        let inside = if shared.dense { first.start..last.end } else { 0..0 };
        let mut pieces = SmallVec::new();
        let copy = |places: Range<usize>, pieces: &mut SmallVec<[Piece; 4]>| {
            for part in even_ranges(places.len(), most) {
                let places = places.start + part.start..places.start + part.end;
                pieces.push(Piece { places, copied: true });
            }
        };
        if inside == (0..count) {
            pieces.push(Piece { places: inside, copied: false });
            return pieces;
        }
        if inside.start >= inside.end || count <= 2 * most {
            copy(0..count, &mut pieces);
            return pieces;
        }
        // As many as are computed together, since one place alone would take nearly as long.
        let left = if inside.start > 0 { inside.start.max(most) } else { 0 };
        let right = if inside.end < count { inside.end.min(count - most) } else { count };
        if left >= right {
            copy(0..count, &mut pieces);
            return pieces;
        }
        copy(0..left, &mut pieces);
        pieces.push(Piece { places: left..right, copied: false });
        copy(right..count, &mut pieces);
        pieces
    }

    unsafe fn tile_last(
        &self,
        shared: &Shared<'_, T::Compute>,
        group: usize,
        segments: &[Segment],
        columns: Range<usize>,
    ) -> Result {
        let lanes = T::Compute::lanes(shared.isa);
        let whole = columns.end.min(shared.whole) - columns.start;
        let rest = if columns.end > shared.whole { columns_of(shared.rest, lanes) } else { 0 };
        let stride = whole + rest;
        let line = self.line_of(shared, shared.copied);
        let runs = self.window.taps.len() / shared.along;
        let block = shared.block.min(segments.iter().map(|segment| segment.count).max().unwrap());
        let sizes = [block * stride, line.saturating_mul(runs)];
        with_scratch(sizes, |[sums, lines]: [&mut [T::Compute]; 2]| {
            let mut products = Products { seen: SmallVec::new(), next: 0, taps: SmallVec::new() };
            for segment in segments {
                for piece in self.pieces(shared, segment) {
                    // SAFETY: passed on; there is a line for each run.
                    unsafe { self.see_piece(shared, group, segment, &piece, lines, &mut products) };
                    let weights = products.weights(self, shared, group);
                    for places in even_ranges(piece.places.len(), shared.block) {
                        let sums = &mut sums[..places.len() * stride];
                        let mut part = *segment;
                        part.place[AXES - 1] += piece.places.start + places.start;
                        part.count = places.len();
                        let channel = group * self.rows + columns.start;
                        // SAFETY: passed on; only where it lies is asked.
                        let result = unsafe { self.epilogue.dst.run(channel, &part) };
                        let result = (result.0.cast_const().cast(), result.1);
                        let tiles = Tiles { places: places.clone(), sums, stride, result };
                        // SAFETY: passed on; the columns belong to the group, and those of the rest are in place or packed.
                        unsafe {
                            products.run(self, shared, columns.start, whole, &weights, tiles);
                            let channels = (channel, columns.len());
                            self.epilogue.store_last(channels, &part, sums, stride);
                        }
                    }
                }
            }
        })
    }

    /// Numbers of a line that a run of taps sees at so many places.
    fn line_of(&self, shared: &Shared<'_, T::Compute>, places: usize) -> usize {
        let step = self.window.axes[AXES - 1].step;
        let wide = if shared.along > 1 { (places - 1) * step + shared.along } else { places };
        wide.saturating_mul(self.channels)
    }

    /// Lists what each run of taps sees at the places of a piece, but for runs that see padding alone.
    unsafe fn see_piece(
        &self,
        shared: &Shared<'_, T::Compute>,
        group: usize,
        segment: &Segment,
        piece: &Piece,
        lines: &mut [T::Compute],
        to: &mut Products<T::Compute>,
    ) {
        let axis = &self.window.axes[AXES - 1];
        let line = self.line_of(shared, shared.copied).max(1);
        to.seen.clear();
        to.taps.clear();
        to.next = match (piece.copied, shared.along) {
            (false, _) => axis.step * axis.stride,
            (true, 1) => self.channels,
            (true, _) => axis.step * self.channels,
        };
        for (index, tap) in self.window.taps.iter().enumerate().step_by(shared.along) {
            let row = self.source.line(self.window, segment, group * self.channels, tap);
            let Some(row) = row else { continue };
            let place = (segment.place[AXES - 1] + piece.places.start) * axis.step;
            let start = place as isize + tap.offsets[AXES - 1];
            let seen = if piece.copied {
                let line = &mut lines[index / shared.along * line..][..line];
                // SAFETY: passed on.
                unsafe { self.copy_line(shared.along, row, start, piece.places.len(), line) };
                line.as_ptr()
            } else {
                // SAFETY: the piece sees no padding, and the input has the type computed in.
                unsafe {
                    let first = self.source.first.get().cast_const().cast::<T::Compute>();
                    first.add(row + start as usize * axis.stride)
                }
            };
            to.seen.push(seen);
            to.taps.push(index);
        }
    }

    /// Copies what a run of taps sees at some places, from position `start` of a line on, with zeros for padding.
    unsafe fn copy_line(
        &self,
        along: usize,
        row: usize,
        start: isize,
        places: usize,
        line: &mut [T::Compute],
    ) {
        let axis = &self.window.axes[AXES - 1];
        let (spacing, count) =
            if along > 1 { (1, (places - 1) * axis.step + along) } else { (axis.step, places) };
        let inside = positions_inside(start, spacing, count, axis.size);
        let (before, rest) = line.split_at_mut(inside.start * self.channels);
        let (copied, behind) = rest.split_at_mut(inside.len() * self.channels);
        before.fill(T::Compute::ZERO);
        behind[..(count - inside.end) * self.channels].fill(T::Compute::ZERO);
        if !inside.is_empty() {
            let at = (start + (inside.start * spacing) as isize) as usize;
            let strides = [spacing * axis.stride, self.source.channel_stride];
            // SAFETY: the places of the range lie inside the input, which has the type computed in.
            unsafe {
                let first = self.source.first.get().cast_const().cast::<T::Compute>();
                copy_places(first.add(row + at * axis.stride), strides, self.channels, copied);
            }
        }
    }
}

/// What the sums of a piece are made of.
struct Products<F> {
    /// What each run of taps sees at the first place, and the distance to the next one.
    seen: SmallVec<[*const F; 8]>,
    next: usize,
    /// The first tap of each run.
    taps: SmallVec<[usize; 8]>,
}

/// Where the sums of some places of a piece go.
struct Tiles<'a, F> {
    places: Range<usize>,
    sums: &'a mut [F],
    stride: usize,
    /// Where the result of the first place will be written, and the distance to that of the next.
    result: (*const F, usize),
}

/// Pointers to weights, one for each run of taps.
type Pointers<F> = SmallVec<[*const F; 8]>;

impl<F: PanelElement> Products<F> {
    /// The weights of the runs.
    fn weights<T: StoredFloat<Compute = F>>(
        &self,
        conv: &Conv<'_, T>,
        shared: &Shared<'_, F>,
        group: usize,
    ) -> Weights<F> {
        // SAFETY: the group and the taps belong to the weights, which have the type computed in.
        let column = |&tap: &usize| unsafe { conv.weight.column(group, 0, tap) };
        let plain: Pointers<F> = self.taps.iter().map(|tap| column(tap).0.cast()).collect();
        let next = self.taps.first().map_or(0, |tap| column(tap).1);
        if shared.packed.is_empty() {
            return Weights { rest: plain.clone(), plain, next, rest_next: next, in_place: true };
        }
        let width = columns_of(shared.rest, F::lanes(shared.isa));
        let size = conv.channels * width;
        let first = group * conv.window.taps.len() * size;
        let rest = self.taps.iter().map(|&tap| shared.packed[first + tap * size..].as_ptr());
        Weights { rest: rest.collect(), plain, next, rest_next: width, in_place: false }
    }

    /// Makes the sums of some places: of `whole` columns from `column` on, and of the rest.
    ///
    /// # Safety
    ///
    /// What is seen and the weights are those of the convolution, and there is room for the sums.
    unsafe fn run<T: StoredFloat<Compute = F>>(
        &self,
        conv: &Conv<'_, T>,
        shared: &Shared<'_, F>,
        column: usize,
        whole: usize,
        weights: &Weights<F>,
        Tiles { places, sums, stride, result }: Tiles<'_, F>,
    ) {
        let panel = 2 * F::lanes(shared.isa);
        let tile = PlaceTile {
            places: 0,
            seen: &self.seen,
            first: 0,
            next: self.next,
            weights: &weights.plain,
            column: 0,
            k_stride: weights.next,
            k: shared.along * conv.channels,
            sums: sums.as_mut_ptr(),
            stride,
        };
        let all = |width: Width, from: usize, tile: PlaceTile<'_, F>| {
            let columns = columns_of(width, panel / 2);
            for part in even_ranges(places.len(), F::max_places(width, shared.isa)) {
                let first = (places.start + part.start) * self.next;
                for place in part.clone().filter(|_| shared.several) {
                    prefetch_write(result.0.wrapping_add(place * result.1 + from), columns);
                }
                // SAFETY: passed on; the places are those of the piece.
                unsafe {
                    let sums = tile.sums.add(part.start * stride);
                    let tile = PlaceTile { places: part.len(), first, sums, ..tile };
                    F::sum_places(&tile, width, shared.isa);
                }
            }
        };
        let mut first = 0;
        while first < whole {
            let fits = |width: &Width| {
                places.len() <= F::max_places(*width, shared.isa)
                    && whole - first >= columns_of(*width, panel / 2)
            };
            let few = [Width::Eight, Width::Four].into_iter().find(fits);
            let width = few.unwrap_or(Width::Two);
            // SAFETY: the columns have room in every row of sums.
            let sums = unsafe { tile.sums.add(first) };
            all(width, first, PlaceTile { column: column + first, sums, ..tile });
            first += columns_of(width, panel / 2);
        }
        if stride > whole {
            let column = if weights.in_place { column + whole } else { 0 };
            // SAFETY: as above.
            let sums = unsafe { tile.sums.add(whole) };
            let (weights, k_stride) = (&weights.rest, weights.rest_next);
            all(shared.rest, whole, PlaceTile { weights, column, k_stride, sums, ..tile });
        }
    }
}

/// The weights of each run of taps, and the distance of steps of k: of the first column, and of the rest.
struct Weights<F> {
    plain: Pointers<F>,
    next: usize,
    rest: Pointers<F>,
    rest_next: usize,
    /// Whether the rest lies behind the columns before it.
    in_place: bool,
}

/// Which of `count` positions, a step apart, lie from 0 to the size.
pub(super) fn positions_inside(
    start: isize,
    step: usize,
    count: usize,
    size: usize,
) -> Range<usize> {
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
        if channels == 3 && place == 1 {
            // Pictures. The lines are written in order.
            let [red, green, blue] = [0, 1, 2]
                .map(|index| std::slice::from_raw_parts(from.add(index * channel), to.len() / 3));
            let colors = red.iter().zip(green).zip(blue);
            for (to, ((&red, &green), &blue)) in to.as_chunks_mut::<3>().0.iter_mut().zip(colors) {
                *to = [red, green, blue];
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

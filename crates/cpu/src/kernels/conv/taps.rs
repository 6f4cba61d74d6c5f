//! Sums of what the taps of a depthwise convolution see, for neighboring channels.

use crate::kernels::matmul::vector::Vector;
use crate::kernels::shared::number::Float;
use crate::kernels::shared::streaming::prefetch_write;

/// What a tap sees at one place: the first channel of the input there, and of the weights of the tap.
#[derive(Clone, Copy)]
pub(crate) struct SeenTap<F> {
    pub input: *const F,
    pub weight: *const F,
}

/// Places whose sums are under way at once, with 32 registers and for many taps: weights are loaded once for all of them, and the
/// time that one addition takes is hidden.
pub(crate) const MANY: usize = 16;

/// The same otherwise, and for what is left over.
pub(crate) const SOME: usize = 8;

/// Taps from which on many places are computed at once.
#[cfg(target_arch = "x86_64")]
pub(crate) const MANY_TAPS: usize = 16;

/// Some neighboring places of a depthwise convolution.
#[derive(Clone, Copy)]
pub(crate) struct SeenPlaces<'a, F> {
    /// What the taps see at the first place.
    pub taps: &'a [SeenTap<F>],
    /// How much further all inputs are at each next place.
    pub next: usize,
    pub channels: usize,
    /// Where the result of the first place will be written, and the distance to that of the next, if another core may have
    /// those lines.
    pub result: Option<(*const F, usize)>,
}

/// For each place and channel the sum of the products of all taps, in their order; up to `MOST` places at once.
///
/// # Safety
///
/// As for [`Vector`]; every tap has all channels in the weights and in the input at each place, of which the sums have a row each,
/// and there are at least [`Vector::LANES`] channels.
#[inline(always)]
pub(crate) unsafe fn sum<V: Vector, const MOST: usize>(
    seen: &SeenPlaces<'_, V::Number>,
    sums: &mut [V::Number],
) {
    let count = sums.len() / seen.channels;
    let mut first = 0;
    while first < count {
        let left = count - first;
        // Some together with others that are there already, which get the same values again: few alone take as long.
        let enough = |places: usize, least: usize| count >= places && left >= least;
        // SAFETY: passed on; the places from the first one on have a row each.
        unsafe {
            first = if enough(MOST, MOST - MOST / 4) {
                places::<V, MOST>(seen, first.min(count - MOST), sums)
            } else if enough(SOME, 3) {
                places::<V, SOME>(seen, first.min(count - SOME), sums)
            } else if enough(4, 3) {
                places::<V, 4>(seen, first.min(count - 4), sums)
            } else if left >= 2 {
                places::<V, 2>(seen, first, sums)
            } else {
                let sums = &mut sums[first * seen.channels..][..seen.channels];
                place::<V>(seen.taps, first * seen.next, sums);
                first + 1
            };
        }
    }
}

/// Several places from the first one on, one vector of channels after another. Gives the place behind them.
#[inline(always)]
unsafe fn places<V: Vector, const PLACES: usize>(
    seen: &SeenPlaces<'_, V::Number>,
    first: usize,
    sums: &mut [V::Number],
) -> usize {
    let SeenPlaces { taps, next, channels, result } = *seen;
    let shift = first * next;
    let sums = &mut sums[first * channels..][..PLACES * channels];
    let mut channel = 0;
    while channel < channels {
        // The last ones together with some that are there already, which get the same values again.
        let at = channel.min(channels - V::LANES);
        // SAFETY: passed on; no vector goes beyond the last channel.
        unsafe {
            let mut vectors = [V::splat(V::Number::ZERO); PLACES];
            if let Some((result, next)) = result {
                for place in first..first + PLACES {
                    prefetch_write(result.wrapping_add(place * next + at), 1);
                }
            }
            for tap in taps {
                let (input, weight) = (tap.input.add(shift + at), V::load(tap.weight.add(at)));
                for (place, sum) in vectors.iter_mut().enumerate() {
                    *sum = sum.add_product(weight, V::load(input.add(place * next)));
                }
            }
            for (place, sum) in vectors.iter().enumerate() {
                sum.store(sums.as_mut_ptr().add(place * channels + at));
            }
        }
        channel += V::LANES;
    }
    first + PLACES
}

/// One place, several vectors of channels at once.
#[inline(always)]
unsafe fn place<V: Vector>(seen: &[SeenTap<V::Number>], shift: usize, sums: &mut [V::Number]) {
    let mut channel = 0;
    // SAFETY: passed on; no vector goes beyond the last channel.
    unsafe {
        while channel + 4 * V::LANES <= sums.len() {
            block::<V, 4>(seen, shift, channel, sums);
            channel += 4 * V::LANES;
        }
        while channel < sums.len() {
            block::<V, 1>(seen, shift, channel.min(sums.len() - V::LANES), sums);
            channel += V::LANES;
        }
    }
}

#[inline(always)]
unsafe fn block<V: Vector, const VECTORS: usize>(
    seen: &[SeenTap<V::Number>],
    shift: usize,
    channel: usize,
    sums: &mut [V::Number],
) {
    // SAFETY: passed on.
    unsafe {
        let mut vectors = [V::splat(V::Number::ZERO); VECTORS];
        for tap in seen {
            for (index, sum) in vectors.iter_mut().enumerate() {
                let place = channel + index * V::LANES;
                let (input, weight) = (tap.input.add(shift + place), tap.weight.add(place));
                *sum = sum.add_product(V::load(weight), V::load(input));
            }
        }
        for (index, sum) in vectors.iter().enumerate() {
            sum.store(sums.as_mut_ptr().add(channel + index * V::LANES));
        }
    }
}

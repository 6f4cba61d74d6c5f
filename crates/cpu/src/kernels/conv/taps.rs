//! Sums of what the taps of a depthwise convolution see, for neighboring channels.

use crate::kernels::matmul::vector::Vector;
use crate::kernels::shared::number::Float;

/// What a tap sees at one place: the first channel of the input there, and of the weights of the tap.
#[derive(Clone, Copy)]
pub(crate) struct SeenTap<F> {
    pub input: *const F,
    pub weight: *const F,
}

/// Places, or vectors of one place, whose sums are under way at once: weights are loaded once for all of them, and the time
/// that one addition takes is hidden.
pub(crate) const TOGETHER: usize = 8;

/// For each place and channel the sum of the products of all taps, in their order. At each place all inputs are `next` elements
/// further than at the one before.
///
/// # Safety
///
/// As for [`Vector`]; every tap has `channels` in the weights and in the input at each place, of which the sums have a row each,
/// and there are at least [`Vector::LANES`] channels.
#[inline(always)]
pub(crate) unsafe fn sum<V: Vector>(
    seen: &[SeenTap<V::Number>],
    next: usize,
    channels: usize,
    sums: &mut [V::Number],
) {
    let mut shift = 0;
    let mut rest = sums;
    macro_rules! blocks {
        ($($places:expr),*) => {$(
            while rest.len() >= $places * channels {
                let (sums, behind) = rest.split_at_mut($places * channels);
                // SAFETY: passed on.
                unsafe { places::<V, { $places }>(seen, shift, next, channels, sums) };
                (shift, rest) = (shift + $places * next, behind);
            }
        )*};
    }
    blocks!(TOGETHER, 4, 2);
    for sums in rest.chunks_exact_mut(channels) {
        // SAFETY: passed on.
        unsafe { place::<V>(seen, shift, sums) };
        shift += next;
    }
}

/// Several places, one vector of channels after another.
#[inline(always)]
unsafe fn places<V: Vector, const PLACES: usize>(
    seen: &[SeenTap<V::Number>],
    shift: usize,
    next: usize,
    channels: usize,
    sums: &mut [V::Number],
) {
    let mut channel = 0;
    while channel < channels {
        // The last ones together with some that are there already, which get the same values again.
        let at = channel.min(channels - V::LANES);
        // SAFETY: passed on; no vector goes beyond the last channel.
        unsafe {
            let mut vectors = [V::splat(V::Number::ZERO); PLACES];
            for tap in seen {
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

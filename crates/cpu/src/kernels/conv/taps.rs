//! Sums of what the taps of a depthwise convolution see, for neighboring channels.

use crate::kernels::matmul::vector::Vector;
use crate::kernels::shared::number::Float;

/// What a tap sees at one place: the first channel of the input there, and of the weights of the tap.
#[derive(Clone, Copy)]
pub(crate) struct SeenTap<F> {
    pub input: *const F,
    pub weight: *const F,
}

/// Vectors whose sums are under way at once, to hide the time that one addition takes.
const TOGETHER: usize = 4;

/// For each channel the sum of the products of all taps, in their order. All inputs are `shift` elements further than the
/// taps say.
///
/// # Safety
///
/// As for [`Vector`]; every tap has as many channels in input and weights as there are sums, and there are at least
/// [`Vector::LANES`].
#[inline(always)]
pub(crate) unsafe fn sum<V: Vector>(
    seen: &[SeenTap<V::Number>],
    shift: usize,
    sums: &mut [V::Number],
) {
    let mut channel = 0;
    // SAFETY: passed on; no vector goes beyond the last channel.
    unsafe {
        while channel + TOGETHER * V::LANES <= sums.len() {
            block::<V, TOGETHER>(seen, shift, channel, sums);
            channel += TOGETHER * V::LANES;
        }
        while channel + V::LANES <= sums.len() {
            block::<V, 1>(seen, shift, channel, sums);
            channel += V::LANES;
        }
        if channel < sums.len() {
            // The last ones together with some that are there already, which get the same values again.
            block::<V, 1>(seen, shift, sums.len() - V::LANES, sums);
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

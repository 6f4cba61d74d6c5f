//! The epilogue of places whose channels are neighbors.

use millstream_core::{Activation, Epilogue};

use super::epilogue::ConvEpilogue;
use super::window::Segment;
use crate::kernels::shared::activation;
use crate::kernels::shared::math::functions as f;
use crate::kernels::shared::number::{Float, StoredFloat};
use crate::kernels::shared::simd::{SimdFn, vectorized};

impl<T: StoredFloat> ConvEpilogue<'_, T> {
    /// Stores the channels from `channel` on of a run of places: a row of sums for each place, of which the first
    /// `channels` are stored.
    ///
    /// # Safety
    ///
    /// The segment and the channels belong to the output, whose channels are neighbors, nobody else touches them, and the
    /// type is the one computed in.
    pub unsafe fn store_last(
        &self,
        (channel, channels): (usize, usize),
        segment: &Segment,
        sums: &mut [T::Compute],
        stride: usize,
    ) {
        // SAFETY: passed on.
        unsafe {
            let added = self.added.map(|added| {
                added.map(|added| {
                    let (from, next) = added.run(channel, segment);
                    Added { from: from.cast_const().cast(), place: next, channel: added.channel }
                })
            });
            let (to, next) = self.dst.run(channel, segment);
            let rest: EpilogueOfRun<'_, T::Compute> = EpilogueOfRun {
                epilogue: self.epilogue,
                added,
                sums,
                stride,
                channels,
                to: to.cast(),
                next,
            };
            vectorized(rest);
        }
    }
}

/// What is added to a run of places, with the distances to the next place and channel.
#[derive(Clone, Copy)]
struct Added<F> {
    from: *const F,
    place: usize,
    channel: usize,
}

/// The rest of a run of places whose channels are neighbors.
struct EpilogueOfRun<'a, F> {
    epilogue: &'a Epilogue,
    added: [Option<Added<F>>; 2],
    sums: &'a mut [F],
    stride: usize,
    channels: usize,
    to: *mut F,
    next: usize,
}

impl<F: Float> SimdFn for EpilogueOfRun<'_, F> {
    #[inline(always)]
    fn run(mut self) {
        if self.channels == 1 {
            return self.of_one_channel();
        }
        if self.channels <= self.stride / 2 {
            self.close_up();
        }
        let scale = F::from_f32(self.epilogue.scale);
        let dense = self.added.iter().flatten().all(|added| added.channel == 1);
        if scale == F::ONE && dense && self.channels >= 8 {
            return self.at_once();
        }
        if scale != F::ONE {
            self.sums.iter_mut().for_each(|sum| *sum = scale * *sum);
        }
        for added in self.added.iter().flatten() {
            for (place, sums) in self.sums.chunks_exact_mut(self.stride).enumerate() {
                let sums = &mut sums[..self.channels];
                // SAFETY: the places and channels belong to the operand, whose elements nobody writes.
                unsafe {
                    let from = added.from.add(place * added.place);
                    if added.channel == 1 {
                        let from = std::slice::from_raw_parts(from, sums.len());
                        sums.iter_mut().zip(from).for_each(|(sum, &value)| *sum += value);
                    } else {
                        for (index, sum) in sums.iter_mut().enumerate() {
                            *sum += *from.add(index * added.channel);
                        }
                    }
                }
            }
        }
        // All at once, with what fills up the rows: these are then long.
        activation::apply(self.epilogue.activation, self.sums);
        for (place, sums) in self.sums.chunks_exact(self.stride).enumerate() {
            // SAFETY: the places and channels belong to the output, and nobody else touches them.
            unsafe { copy_row(&sums[..self.channels], self.to.add(place * self.next)) };
        }
    }
}

impl<F: Float> EpilogueOfRun<'_, F> {
    /// The one channel of all places, which are computed together.
    #[inline(always)]
    fn of_one_channel(self) {
        let places = self.sums.len() / self.stride;
        let scale = F::from_f32(self.epilogue.scale);
        for place in 0..places {
            self.sums[place] = scale * self.sums[place * self.stride];
        }
        let values = &mut self.sums[..places];
        // SAFETY: the places belong to the operands, whose elements nobody writes, and to the output, which nobody else
        // touches.
        unsafe {
            for added in self.added.iter().flatten() {
                if added.place == 0 {
                    let value = *added.from;
                    values.iter_mut().for_each(|sum| *sum += value);
                } else {
                    for (place, sum) in values.iter_mut().enumerate() {
                        *sum += *added.from.add(place * added.place);
                    }
                }
            }
            activation::apply(self.epilogue.activation, values);
            for (place, &value) in values.iter().enumerate() {
                self.to.add(place * self.next).write(value);
            }
        }
    }

    /// Adds, activates and stores some channels after others, so that nothing is stored between.
    #[inline(always)]
    fn at_once(self) {
        match self.epilogue.activation {
            Activation::None => self.each(|x| x),
            Activation::Relu => self.each(f::relu),
            Activation::Gelu => self.each(f::gelu),
            Activation::GeluTanh => self.each(f::gelu_tanh),
            Activation::Silu => self.each(f::silu),
            Activation::Sigmoid => self.each(f::sigmoid),
            Activation::Tanh => self.each(F::tanh),
            Activation::LeakyRelu { slope } => {
                let slope = F::from_f32(slope);
                self.each(|x| f::leaky_relu(x, slope));
            }
            Activation::HardSwish => self.each(f::hard_swish),
            Activation::ScaledHardSwish { scale, shift } => {
                let (scale, shift) = (F::from_f32(scale), F::from_f32(shift));
                self.each(|x| scale * f::hard_swish(x) + shift);
            }
            Activation::Clip { min, max } => {
                let (min, max) = (F::from_f32(min), F::from_f32(max));
                self.each(|x| f::clip(x, min, max));
            }
        }
    }

    #[inline(always)]
    fn each(self, activation: impl Fn(F) -> F) {
        for (place, sums) in self.sums.chunks_exact(self.stride).enumerate() {
            let added = self.added.map(|added| {
                // SAFETY: the place belongs to the operand.
                added.map(|added| unsafe { added.from.add(place * added.place) })
            });
            let mut channel = 0;
            // SAFETY: places and channels belong to the operands, whose elements nobody writes, and to the output, which nobody
            // else touches.
            unsafe {
                let to = self.to.add(place * self.next);
                while channel + 16 <= self.channels {
                    block::<F, 16>(&sums[channel..], added, channel, to, &activation);
                    channel += 16;
                }
                if channel + 8 <= self.channels {
                    block::<F, 8>(&sums[channel..], added, channel, to, &activation);
                    channel += 8;
                }
                while channel < self.channels {
                    block::<F, 1>(&sums[channel..], added, channel, to, &activation);
                    channel += 1;
                }
            }
        }
    }

    /// Moves the rows together, where most of each is there to fill it up.
    #[inline(always)]
    fn close_up(&mut self) {
        let places = self.sums.len() / self.stride;
        for place in 1..places {
            for channel in 0..self.channels {
                self.sums[place * self.channels + channel] =
                    self.sums[place * self.stride + channel];
            }
        }
        let sums = std::mem::take(&mut self.sums);
        self.sums = &mut sums[..places * self.channels];
        self.stride = self.channels;
    }
}

/// Some channels of a place, all read before any is written.
///
/// # Safety
///
/// There are so many from `channel` on, which may be read and written.
#[inline(always)]
unsafe fn block<F: Float, const COUNT: usize>(
    sums: &[F],
    added: [Option<*const F>; 2],
    channel: usize,
    to: *mut F,
    activation: impl Fn(F) -> F,
) {
    // SAFETY: passed on.
    unsafe {
        let mut values: [F; COUNT] = *sums.first_chunk().expect("a row of sums");
        for added in added.into_iter().flatten() {
            let added = added.add(channel).cast::<[F; COUNT]>().read();
            for (value, added) in values.iter_mut().zip(added) {
                *value += added;
            }
        }
        for value in &mut values {
            *value = activation(*value);
        }
        to.add(channel).cast::<[F; COUNT]>().write(values);
    }
}

/// Copies a row, without a call for the few numbers that most have.
///
/// # Safety
///
/// So many may be written.
#[inline(always)]
unsafe fn copy_row<F: Copy>(from: &[F], to: *mut F) {
    let (blocks, rest) = from.as_chunks::<8>();
    // SAFETY: passed on.
    unsafe {
        for (index, block) in blocks.iter().enumerate() {
            to.cast::<[F; 8]>().add(index).write_unaligned(*block);
        }
        let to = to.add(from.len() - rest.len());
        for (index, &value) in rest.iter().enumerate() {
            to.add(index).write(value);
        }
    }
}

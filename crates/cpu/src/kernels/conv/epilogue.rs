//! The epilogue: what happens to sums before they are stored.

use millstream_core::{Epilogue, Operand, RawBuffer};

use super::gather::uninit;
use super::window::{AXES, Segment, Window};
use crate::kernels::shared::activation;
use crate::kernels::shared::block::base;
use crate::kernels::shared::number::{Float, Stored, StoredFloat};
use crate::kernels::shared::parallel::SendPtr;
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// An operand of the shape of the output, seen through a window.
#[derive(Clone, Copy)]
pub(super) struct WindowedOperand<T> {
    first: SendPtr<T>,
    batch: usize,
    channel: usize,
    strides: [usize; AXES],
}

impl<T: Copy> WindowedOperand<T> {
    /// # Safety
    ///
    /// The operand has the type `T` and the shape of the window's output, which is not empty.
    pub unsafe fn new(window: &Window, operand: &Operand<RawBuffer>) -> Self {
        let (strides, start) = window.output_strides(&operand.layout);
        WindowedOperand {
            // SAFETY: the window has outputs, and its first one is an element of the operand.
            first: SendPtr::new(unsafe { base::<T>(operand).add(start) }),
            batch: operand.layout.strides()[0],
            channel: operand.layout.strides()[1],
            strides,
        }
    }

    /// Whether neighboring channels are neighbors in memory.
    pub fn is_last(&self) -> bool {
        self.channel == 1
    }

    /// The first element of a segment of a channel, and the distance to the next.
    ///
    /// # Safety
    ///
    /// The segment and the channel belong to the operand.
    pub unsafe fn run(&self, channel: usize, segment: &Segment) -> (*mut T, usize) {
        let place: usize = segment.place.iter().zip(&self.strides).map(|(at, by)| at * by).sum();
        let start = segment.batch * self.batch + channel * self.channel + place;
        // SAFETY: passed on.
        (unsafe { self.first.get().add(start) }, self.strides[AXES - 1])
    }
}

/// Where sums go and what is done to them.
pub(super) struct ConvEpilogue<'a, T> {
    pub epilogue: &'a Epilogue,
    pub dst: WindowedOperand<T>,
    pub added: [Option<WindowedOperand<T>>; 2],
}

impl<T: StoredFloat> ConvEpilogue<'_, T> {
    /// Stores a row of sums of a channel.
    ///
    /// # Safety
    ///
    /// The segments and the channel belong to the output, and nobody else touches them.
    pub unsafe fn store(&self, channel: usize, segments: &[Segment], sums: &mut [T::Compute]) {
        let scale = T::Compute::from_f32(self.epilogue.scale);
        if scale != T::Compute::ONE {
            sums.iter_mut().for_each(|sum| *sum = scale * *sum);
        }
        for added in self.added.iter().flatten() {
            for segment in segments {
                // SAFETY: passed on.
                unsafe {
                    let sums = &mut sums[segment.column..][..segment.count];
                    let (from, stride) = added.run(channel, segment);
                    if stride == 0 {
                        let value = from.read().widen();
                        sums.iter_mut().for_each(|sum| *sum += value);
                        continue;
                    }
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum += from.add(i * stride).read().widen();
                    }
                }
            }
        }
        vectorized(Activate { activation: self.epilogue.activation, sums: &mut *sums });
        for segment in segments {
            // SAFETY: passed on.
            unsafe {
                let (to, stride) = self.dst.run(channel, segment);
                store_run::<T>(to, stride, &sums[segment.column..][..segment.count]);
            }
        }
    }
}

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
            let finish: Finish<'_, T::Compute> = Finish {
                epilogue: self.epilogue,
                added,
                sums,
                stride,
                channels,
                to: to.cast(),
                next,
            };
            vectorized(finish);
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
struct Finish<'a, F> {
    epilogue: &'a Epilogue,
    added: [Option<Added<F>>; 2],
    sums: &'a mut [F],
    stride: usize,
    channels: usize,
    to: *mut F,
    next: usize,
}

impl<F: Float> SimdFn for Finish<'_, F> {
    #[inline(always)]
    fn run(self) {
        let scale = F::from_f32(self.epilogue.scale);
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

/// Stores numbers, rounding to the element type.
///
/// # Safety
///
/// So many elements with that distance may be written.
pub(crate) unsafe fn store_run<T: Stored>(to: *mut T, stride: usize, from: &[T::Compute]) {
    // SAFETY: passed on.
    unsafe {
        if stride == 1 {
            T::narrow_run(from, uninit(std::slice::from_raw_parts_mut(to, from.len())));
        } else {
            for (i, &value) in from.iter().enumerate() {
                to.add(i * stride).write(T::narrow(value));
            }
        }
    }
}

struct Activate<'a, F> {
    activation: millstream_core::Activation,
    sums: &'a mut [F],
}

impl<F: Float> SimdFn for Activate<'_, F> {
    #[inline(always)]
    fn run(self) {
        activation::apply(self.activation, self.sums);
    }
}

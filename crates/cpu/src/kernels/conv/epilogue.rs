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
    pub channel: usize,
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

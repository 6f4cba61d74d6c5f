//! Normalization of groups of channels.

use std::mem::MaybeUninit;

use millstream_core::{DType, Operand, RawBuffer};

use crate::kernels::shared::block::{BLOCK, BlockBuffer, blocks};
use crate::kernels::shared::lanes::{LANES, accumulate, merge};
use crate::kernels::shared::number::{Float, with_computed_float};
use crate::kernels::shared::operand::{Computed, Input, Output};
use crate::kernels::shared::parallel::{Parallel, parallel_for};
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::walk::Walk;

/// How channels are grouped and scaled.
pub(super) struct Parameters<'a> {
    pub groups: usize,
    pub weight: Option<&'a Operand<RawBuffer>>,
    pub bias: Option<&'a Operand<RawBuffer>>,
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn group_norm(
    parameters: &Parameters<'_>,
    epsilon: f32,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let layouts = [&dst.layout, &src.layout];
    if dst.layout.is_empty() {
        return;
    }
    let channels = dst.layout.shape()[1] / parameters.groups;
    let strides = layouts.map(|layout| layout.strides()[1]);
    let axis = |axis: usize| (dst.layout.shape()[axis], layouts.map(|l| l.strides()[axis]));
    let behind = 2..dst.layout.rank();
    // The size of the group cannot be 0, so no stride is multiplied beyond the extent of the operand.
    let groups = (parameters.groups, strides.map(|stride| stride.wrapping_mul(channels)));
    let all = Walk::from_axes([axis(0), groups].into_iter());
    let group =
        Walk::from_axes(std::iter::once((channels, strides)).chain(behind.clone().map(axis)));
    let channel = Walk::over(layouts, behind);
    with_computed_float!(dst.layout.dtype(), C => {
        // SAFETY: passed on.
        let groups = unsafe {
            Groups::<C> {
                group,
                channel,
                channels,
                strides,
                epsilon: f64::from(epsilon),
                output: Output::new(dst, 0).of_elements(dst.layout.elements()),
                input: Input::new(src, 1, dst),
                weight: parameters.weight.map(|weight| PerChannel::new(weight)),
                bias: parameters.bias.map(|bias| PerChannel::new(bias)),
            }
        };
        parallel_for(parallel, all.elements(), group.elements(), |range| {
            for index in range {
                let first = index % parameters.groups * channels;
                // SAFETY: groups are disjoint; what is its own output is read before it is written.
                unsafe { groups.run(all.position(0, index), all.position(1, index), first) };
            }
            groups.output.end_chunk();
        });
    });
}

/// One number per channel.
#[derive(Clone, Copy)]
struct PerChannel<C> {
    numbers: Input<C>,
    stride: usize,
}

impl<C: Computed> PerChannel<C> {
    unsafe fn new(operand: &Operand<RawBuffer>) -> Self {
        // SAFETY: passed on. It is no operand of a walk.
        let numbers = unsafe { Input::apart(operand, 0) };
        PerChannel { numbers, stride: operand.layout.strides()[0] }
    }

    /// # Safety
    ///
    /// The channel exists.
    unsafe fn get(&self, channel: usize) -> C {
        // SAFETY: passed on.
        unsafe { self.numbers.get(channel * self.stride) }
    }
}

struct Groups<C> {
    /// Output and input over one group, channel by channel.
    group: Walk<2>,
    /// Output and input over one channel.
    channel: Walk<2>,
    channels: usize,
    strides: [usize; 2],
    epsilon: f64,
    output: Output<C>,
    input: Input<C>,
    weight: Option<PerChannel<C>>,
    bias: Option<PerChannel<C>>,
}

impl<C: Float + Computed> Groups<C> {
    /// Normalizes the group at these positions, which starts with channel `first`.
    ///
    /// # Safety
    ///
    /// Nobody else touches the group of the output, nor writes the group of the input.
    unsafe fn run(&self, to: usize, from: usize, first: usize) {
        // SAFETY: passed on.
        let (output, input) = unsafe { (self.output.moved(to), self.input.moved(from)) };
        // SAFETY: passed on.
        let (mean, variance) = unsafe { self.moments(&input) };
        let number = C::from_f64;
        let (mean, rstd) = (number(mean), number(1.0 / (variance + self.epsilon).sqrt()));
        let (mut values, mut results) = (BlockBuffer::new(), BlockBuffer::new());
        for channel in 0..self.channels {
            // SAFETY: the channel exists, and both parameters have one element for it; blocks are read
            // before they are written, and all is written.
            unsafe {
                let output = output.moved(channel * self.strides[0]);
                let input = input.moved(channel * self.strides[1]);
                let weight = self.weight.map(|weight| weight.get(first + channel));
                let bias = self.bias.map(|bias| bias.get(first + channel));
                for (start, len) in blocks(self.channel.elements(), output.block()) {
                    let values = input.read(&self.channel, start, len, &mut values);
                    output.write(&self.channel, start, len, &mut results, |to| {
                        vectorized(Normalize { mean, rstd, weight, bias, values, to });
                    });
                }
            }
        }
    }

    /// Mean and variance. The variance is that of the differences from the mean, in a pass of its own:
    /// the difference of two large sums would cancel.
    ///
    /// # Safety
    ///
    /// Nobody writes the group.
    unsafe fn moments(&self, input: &Input<C>) -> (f64, f64) {
        let count = self.group.elements();
        let mut values = BlockBuffer::new();
        let mut pass = |mean: f64, square: bool| {
            let mut sums = [0.0f64; LANES];
            for (first, len) in blocks(count, BLOCK) {
                // SAFETY: passed on.
                let block = unsafe { input.read(&self.group, first, len, &mut values) };
                vectorized(Moments { sums: &mut sums, mean, square, first, block });
            }
            merge(sums, count, |a, b| a + b) / count as f64
        };
        let mean = pass(0.0, false);
        (mean, pass(mean, true))
    }
}

struct Moments<'a, F> {
    sums: &'a mut [f64; LANES],
    mean: f64,
    square: bool,
    first: usize,
    block: &'a [F],
}

impl<F: Float> SimdFn for Moments<'_, F> {
    #[inline(always)]
    fn run(self) {
        let mean = self.mean;
        if self.square {
            accumulate(self.sums, self.first, self.block, |sum, x, _| {
                let difference = x.to_f64() - mean;
                sum + difference * difference
            });
        } else {
            accumulate(self.sums, self.first, self.block, |sum, x, _| sum + x.to_f64());
        }
    }
}

struct Normalize<'a, F> {
    mean: F,
    rstd: F,
    weight: Option<F>,
    bias: Option<F>,
    values: &'a [F],
    to: &'a mut [MaybeUninit<F>],
}

impl<F: Float> SimdFn for Normalize<'_, F> {
    #[inline(always)]
    fn run(self) {
        let Normalize { mean, rstd, weight, bias, values, to } = self;
        let (weight, bias) = (weight.unwrap_or(F::ONE), bias.unwrap_or(F::ZERO));
        for (to, &x) in to.iter_mut().zip(values) {
            to.write((x - mean) * rstd * weight + bias);
        }
    }
}

#[cfg(test)]
mod tests;

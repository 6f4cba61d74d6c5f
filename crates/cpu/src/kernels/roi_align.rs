//! Regions of interest, each brought to the same size.

use std::ops::Range;

use millstream_core::{DType, Operand, RawBuffer, RoiAlignParams, RoiMode};

use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{KernelFault, Result};
use crate::kernels::shared::number::{Stored, with_f32};
use crate::kernels::shared::parallel::{Parallel, Shared, share};

/// Channels that share the work of finding samples.
const CHANNELS: usize = 16;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn roi_align(
    params: RoiAlignParams,
    dst: &Operand<RawBuffer>,
    inputs: [&Operand<RawBuffer>; 3],
    parallel: &dyn Parallel,
) -> Result {
    if dst.layout.is_empty() {
        return Ok(());
    }
    let [src, _, batches] = inputs;
    let size = src.layout.shape()[0];
    for region in 0..dst.layout.shape()[0] {
        // SAFETY: passed on; there is one for each region.
        let index = unsafe { batch(batches, region) };
        if !usize::try_from(index).is_ok_and(|index| index < size) {
            let message = format!("index {index} is outside an axis of size {size}");
            return Err(KernelFault::new(message));
        }
    }
    // SAFETY: passed on; the type is that of output, input and regions, and all indices are inside.
    with_f32!(dst.layout.dtype(), T => unsafe { align::<T>(params, dst, inputs, parallel) });
    Ok(())
}

/// The batch that a region lies in.
unsafe fn batch(batches: &Operand<RawBuffer>, region: usize) -> i64 {
    let at = region * batches.layout.strides()[0];
    // SAFETY: passed on; the type is that of the operand.
    unsafe {
        match batches.layout.dtype() {
            DType::I64 => base::<i64>(batches).add(at).read(),
            _ => i64::from(base::<i32>(batches).add(at).read()),
        }
    }
}

unsafe fn align<T: Stored<Compute = f32>>(
    params: RoiAlignParams,
    dst: &Operand<RawBuffer>,
    [src, rois, batches]: [&Operand<RawBuffer>; 3],
    parallel: &dyn Parallel,
) {
    let (shape, steps) = (dst.layout.shape(), dst.layout.strides());
    let (sizes, strides) = (src.layout.shape(), src.layout.strides());
    let corners = rois.layout.strides();
    // SAFETY: passed on.
    let (to, from, read) = unsafe {
        (Shared::<T>::new(base(dst)), Shared::<T>::new(base(src)), Shared::<T>::new(base(rois)))
    };
    let samples = if params.samples == 0 { 2 } else { params.samples as usize };
    let work = shape[1].saturating_mul(4 * samples * samples);
    share(parallel, shape[0] * shape[2] * shape[3], work, |range| {
        for item in range {
            let (rest, x) = (item / shape[3], item % shape[3]);
            let (region, y) = (rest / shape[2], rest % shape[2]);
            // SAFETY: a region has four numbers.
            let corner = |k: usize| unsafe {
                read.get().add(region * corners[0] + k * corners[1]).read().widen()
            };
            let spans = [
                Span::new(params, 0, [corner(1), corner(3)]).bin(y, sizes[2]),
                Span::new(params, 1, [corner(0), corner(2)]).bin(x, sizes[3]),
            ];
            // SAFETY: all indices are inside.
            let batch = unsafe { batch(batches, region) } as usize;
            for channel in (0..shape[1]).step_by(CHANNELS) {
                let count = CHANNELS.min(shape[1] - channel);
                let mut sums = Sums::new(params.mode, count);
                for down in spans[0].taps(strides[2]) {
                    for across in spans[1].taps(strides[3]) {
                        let start = batch * strides[0] + channel * strides[1];
                        // SAFETY: taps lie inside the input, and so do these channels of the batch.
                        unsafe { sums.sample(from.get().add(start), strides[1], down, across) };
                    }
                }
                let place = region * steps[0] + y * steps[2] + x * steps[3];
                for (at, value) in sums.finish(&spans).iter().enumerate() {
                    // SAFETY: every place of the output is one item's.
                    let to = unsafe { to.get().add(place + (channel + at) * steps[1]) };
                    // SAFETY: as above.
                    unsafe { to.write(T::narrow(*value)) };
                }
            }
        }
    });
}

/// What some channels have so far.
struct Sums {
    mode: RoiMode,
    values: [f32; CHANNELS],
    count: usize,
}

impl Sums {
    fn new(mode: RoiMode, count: usize) -> Self {
        let first = if mode == RoiMode::Mean { 0.0 } else { f32::NEG_INFINITY };
        Self { mode, values: [first; CHANNELS], count }
    }

    /// # Safety
    ///
    /// The taps lead to elements of every channel.
    unsafe fn sample<T: Stored<Compute = f32>>(
        &mut self,
        from: *const T,
        stride: usize,
        down: [(usize, f32); 2],
        across: [(usize, f32); 2],
    ) {
        for (row, height) in down {
            for (column, width) in across {
                let weight = height * width;
                for (channel, value) in self.values[..self.count].iter_mut().enumerate() {
                    // What counts nothing is 0, even where it is not finite.
                    let term = if weight == 0.0 {
                        0.0
                    } else {
                        // SAFETY: passed on.
                        weight * unsafe { from.add(row + column + channel * stride).read() }.widen()
                    };
                    *value = match self.mode {
                        RoiMode::Mean => *value + term,
                        RoiMode::Max => larger(*value, term),
                    };
                }
            }
        }
    }

    fn finish(&mut self, [down, across]: &[Bin; 2]) -> &[f32] {
        let whole = down.is_inside() && across.is_inside();
        let all = (down.span.count * across.span.count).max(1.0);
        for value in &mut self.values[..self.count] {
            match self.mode {
                RoiMode::Mean => *value /= all,
                RoiMode::Max if whole => {}
                RoiMode::Max => *value = larger(*value, 0.0),
            }
        }
        &self.values[..self.count]
    }
}

/// The larger of two; no number where one is none.
fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}

/// A region along one axis, in elements.
#[derive(Clone, Copy)]
struct Span {
    start: f32,
    /// The part of one output.
    bin: f32,
    /// Samples of one output, a whole number.
    count: f32,
}

impl Span {
    fn new(params: RoiAlignParams, axis: usize, [first, last]: [f32; 2]) -> Self {
        let shift = if params.half_pixel { 0.5 } else { 0.0 };
        let start = first * params.scale - shift;
        let mut length = last * params.scale - shift - start;
        if !params.half_pixel && length < 1.0 {
            length = 1.0;
        }
        let bin = length / params.size[axis] as f32;
        let count = match params.samples {
            0 if bin > 0.0 => bin.ceil().min(RoiAlignParams::MAX_SAMPLES as f32),
            fixed => fixed as f32,
        };
        Self { start, bin, count }
    }

    fn place(&self, output: usize, sample: u32) -> f32 {
        let within = (sample as f32 + 0.5) * self.bin / self.count;
        self.start + output as f32 * self.bin + within
    }

    /// One output, with the samples of it that are not outside. They have no gaps, since places only rise or
    /// only fall.
    fn bin(self, output: usize, size: usize) -> Bin {
        let (low, high, count) = (-1.0, size as f32, self.count as u32);
        let place = |sample| self.place(output, sample);
        let falls = self.bin < 0.0;
        let first =
            first_where(count, |at| if falls { place(at) <= high } else { place(at) >= low });
        let last = first_where(count, |at| if falls { place(at) < low } else { place(at) > high });
        let last = last.max(first);
        Bin { span: self, output, samples: first..last, size }
    }
}

/// The first of so many for which holds what holds for all behind it.
fn first_where(count: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// One output along one axis.
struct Bin {
    span: Span,
    output: usize,
    samples: Range<u32>,
    size: usize,
}

impl Bin {
    /// Whether there are samples, all of them inside.
    fn is_inside(&self) -> bool {
        !self.samples.is_empty() && self.samples == (0..self.span.count as u32)
    }

    /// The two elements around each sample, and what they count.
    fn taps(&self, stride: usize) -> impl Iterator<Item = [(usize, f32); 2]> {
        self.samples.clone().map(move |sample| {
            let place = self.span.place(self.output, sample).max(0.0);
            let (low, last) = (place as usize, self.size - 1);
            if low >= last {
                return [(last * stride, 1.0), (last * stride, 0.0)];
            }
            let part = place - low as f32;
            [(low * stride, 1.0 - part), ((low + 1) * stride, part)]
        })
    }
}

#[cfg(test)]
mod tests;

//! Normalization of rows: by mean and variance, or by the mean square alone.

use std::mem::MaybeUninit;

use millstream_core::{DType, NormOperands, Operand, RawBuffer};

use crate::kernels::shared::block::{BLOCK, BlockBuffer, blocks};
use crate::kernels::shared::lanes::{LANES, merge};
use crate::kernels::shared::number::{Float, with_computed_float};
use crate::kernels::shared::operand::{Computed, Input, Output};
use crate::kernels::shared::parallel::{Parallel, parallel_for};
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::walk::Walk;

/// How rows are normalized.
pub(super) struct Parameters {
    /// How many of the last axes make a row.
    pub axes: usize,
    pub epsilon: f32,
    /// Whether the mean is taken off first.
    pub centered: bool,
}

/// Normalizes rows.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn norm(
    parameters: &Parameters,
    operands: &NormOperands<'_, RawBuffer>,
    parallel: &dyn Parallel,
) {
    let &Parameters { axes, epsilon, centered } = parameters;
    let &NormOperands { dst, mean, rstd, src, weight, bias } = operands;
    let kept = dst.layout.rank() - axes;
    let rows = Walk::over([&dst.layout, &src.layout], 0..kept);
    let stride = |parameter: Option<&Operand<RawBuffer>>, axis: usize| {
        parameter.map_or(0, |operand| operand.layout.strides()[axis])
    };
    let row = Walk::from_axes((0..axes).map(|axis| {
        let place = kept + axis;
        let (to, from) = (dst.layout.strides()[place], src.layout.strides()[place]);
        (dst.layout.shape()[place], [to, from, stride(weight, axis), stride(bias, axis)])
    }));
    // SAFETY: passed on.
    let moments = mean.zip(rstd).map(|outputs| unsafe { Moments::new(outputs.into(), kept) });
    if row.elements() == 0 {
        if let Some(moments) = moments {
            // SAFETY: passed on; this thread writes all of them.
            (0..rows.elements()).for_each(|index| unsafe { moments.write(index, [f64::NAN; 2]) });
        }
        return;
    }
    with_computed_float!(dst.layout.dtype(), C => {
        // SAFETY: passed on.
        let norm = unsafe {
            Rows::<C> {
                row,
                epsilon: f64::from(epsilon),
                centered,
                output: Output::new(dst, 0).of_elements(dst.layout.elements()),
                input: Input::new(src, 1, dst),
                weight: weight.map(|weight| Input::new(weight, 2, dst)),
                bias: bias.map(|bias| Input::new(bias, 3, dst)),
                moments,
            }
        };
        parallel_for(parallel, rows.elements(), row.elements(), |range| {
            for index in range.clone() {
                // Rows are disjoint; what is its own output is read before it is written.
                let (to, from) = (rows.position(0, index), rows.position(1, index));
                let next = (index + 1 < range.end && norm.output.is_streaming())
                    .then(|| rows.position(1, index + 1));
                vectorized(Row { rows: &norm, index, to, from, next });
            }
            norm.output.end_chunk();
        });
    });
}

struct Rows<C> {
    /// Output, input, weight and bias along the normalized axes.
    row: Walk<4>,
    epsilon: f64,
    centered: bool,
    output: Output<C>,
    input: Input<C>,
    weight: Option<Input<C>>,
    bias: Option<Input<C>>,
    moments: Option<Moments>,
}

/// Where means and inverse standard deviations of rows go.
#[derive(Clone, Copy)]
struct Moments {
    rows: Walk<2>,
    outputs: [Output<f32>; 2],
}

impl Moments {
    /// # Safety
    ///
    /// As for [`execute`](super::execute).
    unsafe fn new(operands: [&Operand<RawBuffer>; 2], kept: usize) -> Self {
        let rows = Walk::over(operands.map(|operand| &operand.layout), 0..kept);
        // SAFETY: passed on.
        let outputs = [0, 1].map(|at| unsafe { Output::new(operands[at], at) });
        Self { rows, outputs }
    }

    /// Stores those of a row.
    ///
    /// # Safety
    ///
    /// There is such a row, and nobody else touches these elements of it.
    unsafe fn write(&self, index: usize, moments: [f64; 2]) {
        for (at, (output, moment)) in self.outputs.iter().zip(moments).enumerate() {
            // SAFETY: passed on.
            unsafe { output.set(self.rows.position(at, index), moment as f32) };
        }
    }
}

/// One row, at these positions. Nobody else touches that of the output, nor writes that of the inputs.
struct Row<'a, C> {
    rows: &'a Rows<C>,
    index: usize,
    to: usize,
    from: usize,
    /// The row of the input that is worth asking for meanwhile.
    next: Option<usize>,
}

impl<C: Float + Computed> SimdFn for Row<'_, C> {
    #[inline(always)]
    fn run(self) {
        // SAFETY: the value says so.
        unsafe {
            let moments = self.rows.run(self.to, self.from, self.next);
            // Behind the row, which may lie in the same place if it is one element.
            if let Some(all) = &self.rows.moments {
                all.write(self.index, moments);
            }
        }
    }
}

impl<C: Float + Computed> Rows<C> {
    /// Normalizes the row at these positions. Returns its mean and the inverse of its standard deviation.
    ///
    /// # Safety
    ///
    /// Nobody else touches the row of the output, nor writes the rows of the inputs.
    #[inline(always)]
    unsafe fn run(&self, to: usize, from: usize, next: Option<usize>) -> [f64; 2] {
        let row = &self.row;
        // SAFETY: passed on.
        let (output, input) = unsafe { (self.output.moved(to), self.input.moved(from)) };
        // The variance is that of the differences from the mean, in a pass of its own: the
        // difference of two large sums would cancel.
        let mut mean = 0.0;
        if self.centered {
            // SAFETY: passed on.
            mean = unsafe { self.mean(&input, |x| x) };
        }
        // SAFETY: passed on.
        let square = unsafe { self.mean(&input, |x| (x - mean) * (x - mean)) };
        let number = C::from_f64;
        let moments = [mean, 1.0 / (square + self.epsilon).sqrt()];
        let [mean, rstd] = moments.map(number);

        let (mut values, mut results) = (BlockBuffer::new(), BlockBuffer::new());
        let (mut weights, mut biases) = (BlockBuffer::new(), BlockBuffer::new());
        for (first, len) in blocks(row.elements(), output.block()) {
            if let Some(next) = next {
                self.input.prefetch(next + first, len);
            }
            // SAFETY: passed on; blocks are read before they are written, and all is written.
            unsafe {
                let values = input.read(row, first, len, &mut values);
                let weight = self.weight.map(|w| w.read(row, first, len, &mut weights));
                let bias = self.bias.map(|b| b.read(row, first, len, &mut biases));
                output.write(row, first, len, &mut results, |results| {
                    vectorized(Scale { values, mean, rstd, weight, bias, results });
                });
            }
        }
        moments
    }

    /// The mean of a function of the elements of a row.
    ///
    /// # Safety
    ///
    /// Nobody writes the row.
    #[inline(always)]
    unsafe fn mean(&self, input: &Input<C>, function: impl Fn(f64) -> f64) -> f64 {
        let count = self.row.elements();
        let (mut sums, mut values) = ([0.0; LANES], BlockBuffer::new());
        for (first, len) in blocks(count, BLOCK) {
            // SAFETY: passed on.
            let block = unsafe { input.read(&self.row, first, len, &mut values) };
            // Widened before they are added, which the compiler makes better vectors of.
            let (groups, rest) = block.as_chunks::<LANES>();
            for group in groups {
                let wide = group.map(Float::to_f64);
                for (sum, x) in sums.iter_mut().zip(wide) {
                    *sum += function(x);
                }
            }
            for (sum, x) in sums.iter_mut().zip(rest) {
                *sum += function(x.to_f64());
            }
        }
        merge(sums, count, |a, b| a + b) / count as f64
    }
}

/// The last step of a block; all slices have one length.
struct Scale<'a, F> {
    values: &'a [F],
    mean: F,
    rstd: F,
    weight: Option<&'a [F]>,
    bias: Option<&'a [F]>,
    results: &'a mut [MaybeUninit<F>],
}

impl<F: Float> SimdFn for Scale<'_, F> {
    #[inline(always)]
    fn run(self) {
        let Scale { values, mean, rstd, weight, bias, results } = self;
        let normal = |x: F| (x - mean) * rstd;
        let results = results.iter_mut().zip(values);
        match (weight, bias) {
            (None, None) => results.for_each(|(result, &x)| {
                result.write(normal(x));
            }),
            (Some(weight), None) => results.zip(weight).for_each(|((result, &x), &w)| {
                result.write(normal(x) * w);
            }),
            (None, Some(bias)) => results.zip(bias).for_each(|((result, &x), &b)| {
                result.write(normal(x) + b);
            }),
            (Some(weight), Some(bias)) => {
                results.zip(weight).zip(bias).for_each(|(((result, &x), &w), &b)| {
                    result.write(normal(x) * w + b);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Normalization of rows: by mean and variance, or by the mean square alone.

use std::mem::MaybeUninit;

use millstream_core::{DType, Operand, RawBuffer};

use crate::kernels::shared::block::{BLOCK, Input, Output, Scratch, base, blocks};
use crate::kernels::shared::lanes::{LANES, merge};
use crate::kernels::shared::number::{Float, StoredFloat, with_float};
use crate::kernels::shared::parallel::{Parallel, share};
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::walk::Walk;

/// What rows are normalized by.
pub(super) struct Parameters<'a> {
    /// How many of the last axes make a row.
    pub axes: usize,
    pub epsilon: f32,
    /// Whether the mean is taken off first.
    pub centered: bool,
    pub weight: Option<&'a Operand<RawBuffer>>,
    pub bias: Option<&'a Operand<RawBuffer>>,
}

/// Normalizes rows.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn norm(
    parameters: &Parameters<'_>,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let &Parameters { axes, epsilon, centered, weight, bias } = parameters;
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
    if row.elements() == 0 {
        return;
    }
    with_float!(dst.layout.dtype(), T => {
        // SAFETY: passed on.
        let norm = unsafe {
            let to = base::<T>(dst);
            Rows::<T> {
                row,
                epsilon: f64::from(epsilon),
                centered,
                output: Output::new(to, 0).of_elements(dst.layout.elements()),
                input: Input::new(base(src), 1, to),
                weight: weight.map(|weight| Input::new(base(weight), 2, to)),
                bias: bias.map(|bias| Input::new(base(bias), 3, to)),
            }
        };
        share(parallel, rows.elements(), row.elements(), |range| {
            for index in range.clone() {
                // Rows are disjoint; what is its own output is read before it is written.
                let (to, from) = (rows.position(0, index), rows.position(1, index));
                let next = (index + 1 < range.end && norm.output.is_streaming())
                    .then(|| rows.position(1, index + 1));
                vectorized(Row { rows: &norm, to, from, next });
            }
            norm.output.end_chunk();
        });
    });
}

struct Rows<T> {
    /// Output, input, weight and bias along the normalized axes.
    row: Walk<4>,
    epsilon: f64,
    centered: bool,
    output: Output<T>,
    input: Input<T>,
    weight: Option<Input<T>>,
    bias: Option<Input<T>>,
}

/// One row, at these positions. Nobody else touches that of the output, nor writes that of the inputs.
struct Row<'a, T> {
    rows: &'a Rows<T>,
    to: usize,
    from: usize,
    /// The row of the input that is worth asking for meanwhile.
    next: Option<usize>,
}

impl<T: StoredFloat> SimdFn for Row<'_, T> {
    #[inline(always)]
    fn run(self) {
        // SAFETY: the value says so.
        unsafe { self.rows.run(self.to, self.from, self.next) }
    }
}

impl<T: StoredFloat> Rows<T> {
    /// Normalizes the row at these positions.
    ///
    /// # Safety
    ///
    /// Nobody else touches the row of the output, nor writes the rows of the inputs.
    #[inline(always)]
    unsafe fn run(&self, to: usize, from: usize, next: Option<usize>) {
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
        let number = <T::Compute as Float>::from_f64;
        let (mean, rstd) = (number(mean), number(1.0 / (square + self.epsilon).sqrt()));

        let (mut values, mut results) = (Scratch::new(), Scratch::new());
        let (mut weights, mut biases) = (Scratch::new(), Scratch::new());
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
    }

    /// The mean of a function of the elements of a row.
    ///
    /// # Safety
    ///
    /// Nobody writes the row.
    #[inline(always)]
    unsafe fn mean(&self, input: &Input<T>, function: impl Fn(f64) -> f64) -> f64 {
        let count = self.row.elements();
        let (mut sums, mut values) = ([0.0; LANES], Scratch::new());
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

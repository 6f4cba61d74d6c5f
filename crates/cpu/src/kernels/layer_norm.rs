//! Layer normalisation.

use millstream_core::{DType, Operand, RawBuffer};

use super::block::{BLOCK, Input, Output, Scratch, base};
use super::lanes::{LANES, accumulate, merge};
use super::number::{Float, StoredFloat, with_float};
use super::parallel::{Parallel, share};
use super::simd::{Job, vectorised};
use super::walk::Walk;

/// # Safety
///
/// As for [`execute`](super::execute).
pub(super) unsafe fn layer_norm(
    axes: usize,
    epsilon: f32,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    weight: Option<&Operand<RawBuffer>>,
    bias: Option<&Operand<RawBuffer>>,
    parallel: &dyn Parallel,
) {
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
        let job = unsafe {
            let to = base::<T>(dst);
            Rows::<T> {
                row,
                epsilon: f64::from(epsilon),
                output: Output::new(to, 0).of_elements(dst.layout.elements()),
                input: Input::new(base(src), 1, to),
                weight: weight.map(|weight| Input::new(base(weight), 2, to)),
                bias: bias.map(|bias| Input::new(base(bias), 3, to)),
            }
        };
        share(parallel, rows.elements(), row.elements(), |range| {
            for index in range {
                // Rows are disjoint; what is its own output is read before it is written.
                let (to, from) = (rows.position(0, index), rows.position(1, index));
                vectorised(Row { rows: &job, to, from });
            }
            job.output.finish_chunk();
        });
    });
}

struct Rows<T> {
    /// Output, input, weight and bias along the normalised axes.
    row: Walk<4>,
    epsilon: f64,
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
}

impl<T: StoredFloat> Job for Row<'_, T> {
    #[inline(always)]
    fn run(self) {
        // SAFETY: the value says so.
        unsafe { self.rows.run(self.to, self.from) }
    }
}

impl<T: StoredFloat> Rows<T> {
    /// Normalises the row at these positions.
    ///
    /// # Safety
    ///
    /// Nobody else touches the row of the output, nor writes the rows of the inputs.
    #[inline(always)]
    unsafe fn run(&self, to: usize, from: usize) {
        let row = &self.row;
        let count = row.elements();
        let blocks = (0..count).step_by(BLOCK).map(|first| (first, BLOCK.min(count - first)));
        // SAFETY: passed on.
        let (output, input) = unsafe { (self.output.moved(to), self.input.moved(from)) };
        let mut values = Scratch::new();

        // The variance is that of the differences from the mean, in a pass of its own: the
        // difference of two large sums would cancel.
        let mut sums = [0.0f64; LANES];
        for (first, len) in blocks.clone() {
            // SAFETY: passed on.
            let block = unsafe { input.read(row, first, len, &mut values) };
            accumulate(&mut sums, first, block, |sum, x, _| sum + x.to_f64());
        }
        let mean = merge(sums, |a, b| a + b) / count as f64;
        let mut sums = [0.0f64; LANES];
        for (first, len) in blocks.clone() {
            // SAFETY: passed on.
            let block = unsafe { input.read(row, first, len, &mut values) };
            accumulate(&mut sums, first, block, |sum, x, _| {
                let difference = x.to_f64() - mean;
                sum + difference * difference
            });
        }
        let variance = merge(sums, |a, b| a + b) / count as f64;
        let number = <T::Compute as Float>::from_f64;
        let (mean, factor) = (number(mean), number(1.0 / (variance + self.epsilon).sqrt()));

        let (mut weights, mut biases, mut results) =
            (Scratch::new(), Scratch::new(), Scratch::new());
        for (first, len) in blocks {
            // SAFETY: passed on; blocks are read before they are written, and all is written.
            unsafe {
                let block = input.read(row, first, len, &mut values);
                let weight = self.weight.map(|w| w.read(row, first, len, &mut weights));
                let bias = self.bias.map(|b| b.read(row, first, len, &mut biases));
                output.write(row, first, len, &mut results, |results| {
                    let normal = |x: T::Compute| (x - mean) * factor;
                    let results = results.iter_mut().zip(block);
                    match (weight, bias) {
                        (None, None) => results.for_each(|(result, &x)| {
                            result.write(normal(x));
                        }),
                        (Some(weight), None) => {
                            results.zip(weight).for_each(|((result, &x), &w)| {
                                result.write(normal(x) * w);
                            });
                        }
                        (None, Some(bias)) => results.zip(bias).for_each(|((result, &x), &b)| {
                            result.write(normal(x) + b);
                        }),
                        (Some(weight), Some(bias)) => {
                            results.zip(weight).zip(bias).for_each(|(((result, &x), &w), &b)| {
                                result.write(normal(x) * w + b);
                            });
                        }
                    }
                });
            }
        }
    }
}

#[cfg(test)]
#[path = "layer_norm_tests.rs"]
mod tests;

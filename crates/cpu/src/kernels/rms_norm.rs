//! Normalisation by the root of the mean square.

use std::mem::MaybeUninit;

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
pub(super) unsafe fn rms_norm(
    axes: usize,
    epsilon: f32,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    weight: Option<&Operand<RawBuffer>>,
    parallel: &dyn Parallel,
) {
    let kept = dst.layout.rank() - axes;
    let rows = Walk::over([&dst.layout, &src.layout], 0..kept);
    let row = Walk::from_axes((0..axes).map(|axis| {
        let place = kept + axis;
        let stride = weight.map_or(0, |operand| operand.layout.strides()[axis]);
        let (to, from) = (dst.layout.strides()[place], src.layout.strides()[place]);
        (dst.layout.shape()[place], [to, from, stride])
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
                output: Output::new(to, 0),
                input: Input::new(base(src), 1, to),
                weight: weight.map(|weight| Input::new(base(weight), 2, to)),
            }
        };
        share(parallel, rows.elements(), row.elements(), |range| {
            for index in range {
                // SAFETY: rows are disjoint; what is its own output is read before it is written.
                unsafe { job.run(rows.position(0, index), rows.position(1, index)) };
            }
        });
    });
}

struct Rows<T> {
    /// Output, input and weight along the normalised axes.
    row: Walk<3>,
    epsilon: f64,
    output: Output<T>,
    input: Input<T>,
    weight: Option<Input<T>>,
}

impl<T: StoredFloat> Rows<T> {
    /// Normalises the row at these positions.
    ///
    /// # Safety
    ///
    /// Nobody else touches the row of the output, nor writes the rows of the inputs.
    unsafe fn run(&self, to: usize, from: usize) {
        let row = &self.row;
        let count = row.elements();
        let blocks = (0..count).step_by(BLOCK).map(|first| (first, BLOCK.min(count - first)));
        // SAFETY: passed on.
        let (output, input) = unsafe { (self.output.moved(to), self.input.moved(from)) };
        let mut values = Scratch::new();

        let mut sums = [0.0f64; LANES];
        for (first, len) in blocks.clone() {
            // SAFETY: passed on.
            let block = unsafe { input.read(row, first, len, &mut values) };
            vectorised(AddSquares { sums: &mut sums, first, block });
        }
        let mean = merge(sums, |a, b| a + b) / count as f64;
        let factor = <T::Compute as Float>::from_f64(1.0 / (mean + self.epsilon).sqrt());

        let (mut weights, mut results) = (Scratch::new(), Scratch::new());
        for (first, len) in blocks {
            // SAFETY: passed on; blocks are read before they are written, and all is written.
            unsafe {
                let values = input.read(row, first, len, &mut values);
                let weight = self.weight.map(|w| w.read(row, first, len, &mut weights));
                output.write(row, first, len, &mut results, |to| {
                    vectorised(Scale { factor, values, weight, to });
                });
            }
        }
    }
}

struct AddSquares<'a, F> {
    sums: &'a mut [f64; LANES],
    first: usize,
    block: &'a [F],
}

impl<F: Float> Job for AddSquares<'_, F> {
    #[inline(always)]
    fn run(self) {
        accumulate(self.sums, self.first, self.block, |sum, x, _| sum + x.to_f64() * x.to_f64());
    }
}

struct Scale<'a, F> {
    factor: F,
    values: &'a [F],
    weight: Option<&'a [F]>,
    to: &'a mut [MaybeUninit<F>],
}

impl<F: Float> Job for Scale<'_, F> {
    #[inline(always)]
    fn run(self) {
        let results = self.to.iter_mut().zip(self.values);
        match self.weight {
            None => results.for_each(|(to, &x)| {
                to.write(x * self.factor);
            }),
            Some(weight) => results.zip(weight).for_each(|((to, &x), &w)| {
                to.write(x * self.factor * w);
            }),
        }
    }
}

#[cfg(test)]
#[path = "rms_norm_tests.rs"]
mod tests;

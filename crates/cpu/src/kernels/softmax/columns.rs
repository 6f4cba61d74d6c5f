//! Many columns at once, where the memory goes across the rows.

use std::mem::MaybeUninit;

use super::super::lanes::Columns;
use super::super::number::{Float, StoredFloat};
use super::super::parallel::{Parallel, share};
use super::super::simd::{Job, vectorised};
use super::Task;

/// Fewer columns than this are not worth it.
pub(super) const FEWEST: usize = 8;

/// Columns at once: some lines of each row of memory.
const WIDTH: usize = 64;

/// How many rows of memory ahead are asked for.
const AHEAD: usize = 8;

/// # Safety
///
/// As for [`execute`](super::super::execute).
pub(super) unsafe fn run<T: StoredFloat>(task: &Task<T>, parallel: &dyn Parallel) {
    let inner = task.rows.inner();
    // Strips end where the columns are no longer neighbours.
    let strips = inner.div_ceil(WIDTH);
    let all = task.rows.elements() / inner * strips;
    share(parallel, all, task.row.elements().saturating_mul(WIDTH.min(inner)), |range| {
        for strip in range {
            let column = strip % strips * WIDTH;
            let width = WIDTH.min(inner - column);
            // Strips are disjoint; what is its own output is read before it is written.
            vectorised(Strip { task, first: strip / strips * inner + column, width });
        }
        task.output.finish_chunk();
    });
}

/// Neighbouring columns. Nobody else touches those of the output, nor writes those of the input.
struct Strip<'a, T> {
    task: &'a Task<T>,
    first: usize,
    width: usize,
}

impl<T: StoredFloat> Job for Strip<'_, T> {
    #[inline(always)]
    fn run(self) {
        let number = <T::Compute as Float>::from_f64;
        let log = self.task.log;
        let mut tops = [-<T::Compute as Float>::INFINITY; WIDTH];
        self.each(|_, values| {
            for (top, &x) in tops.iter_mut().zip(values) {
                *top = top.maximum(x);
            }
        });
        let mut sums = Columns::<f64, WIDTH>::new(0.0, self.task.row.elements());
        self.each(|index, values| {
            for ((sum, &x), &top) in sums.row(index).iter_mut().zip(values).zip(&tops) {
                *sum += (x - top).exp().to_f64();
            }
        });
        // The sum of the powers, as it is used below.
        let totals: [_; WIDTH] = std::array::from_fn(|column| {
            let sum = sums.merge(column, |a, b| a + b);
            number(if log { sum.ln() } else { 1.0 / sum })
        });
        let to = self.task.rows.position(0, self.first);
        let stride = self.task.row.inner_stride(0);
        let mut results = [<T::Compute as Float>::ZERO; WIDTH];
        self.each(|index, values| {
            let results = &mut results[..values.len()];
            let parameters = tops.iter().zip(&totals);
            for ((result, &x), (&top, &total)) in results.iter_mut().zip(values).zip(parameters) {
                *result = if log { (x - top) - total } else { (x - top).exp() * total };
            }
            // SAFETY: the elements are those of the strip.
            unsafe { self.task.output.narrow(to + index * stride, results) };
        });
    }
}

impl<T: StoredFloat> Strip<'_, T> {
    /// Visits the strip's part of each row of memory.
    #[inline(always)]
    fn each(&self, mut visit: impl FnMut(usize, &[T::Compute])) {
        let input = &self.task.input;
        let from = self.task.rows.position(1, self.first);
        let stride = self.task.row.inner_stride(1);
        let mut values = [const { MaybeUninit::uninit() }; WIDTH];
        for index in 0..self.task.row.elements() {
            let place = from.wrapping_add(index.wrapping_mul(stride));
            input.prefetch(place.wrapping_add(AHEAD.wrapping_mul(stride)), self.width);
            let values = &mut values[..self.width];
            // SAFETY: the elements are those of the strip, and all values are written.
            visit(index, unsafe {
                input.widen(place, values);
                values.assume_init_ref()
            });
        }
    }
}

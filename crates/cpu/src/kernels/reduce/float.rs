//! Reductions of floating-point elements. Sums are kept in `f64` and rounded once.

use millstream_core::ReduceOp;

use super::extreme;
use super::fold::Reduction;
use crate::kernels::shared::number::{Float, StoredFloat};

/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the input has the type `T`.
pub(super) unsafe fn reduce<T: StoredFloat>(op: ReduceOp, reduction: &Reduction<'_>) {
    let count = reduction.count() as f64;
    let add = |a: f64, b: f64| a + b;
    let sum = |a: f64, x: T::Compute, _| a + x.to_f64();
    // SAFETY: passed on.
    unsafe {
        match op {
            ReduceOp::Sum => reduction.fold::<T, T, _>(0.0, sum, add, T::from_f64),
            ReduceOp::Mean => reduction.fold::<T, T, _>(0.0, sum, add, |s| T::from_f64(s / count)),
            ReduceOp::Prod => {
                let multiply = |a: f64, x: T::Compute, _| a * x.to_f64();
                reduction.fold::<T, T, _>(1.0, multiply, |a, b| a * b, T::from_f64);
            }
            ReduceOp::L1 => {
                let add_size = |a: f64, x: T::Compute, _| a + x.to_f64().abs();
                reduction.fold::<T, T, _>(0.0, add_size, add, T::from_f64);
            }
            ReduceOp::L2 => {
                let add_square = |a: f64, x: T::Compute, _| a + x.to_f64() * x.to_f64();
                reduction.fold::<T, T, _>(0.0, add_square, add, |s| T::from_f64(s.sqrt()));
            }
            ReduceOp::Max => {
                let start = -<T::Compute as Float>::INFINITY;
                let (step, merge) = (|a: T::Compute, x, _| a.maximum(x), Float::maximum);
                reduction.fold::<T, T, _>(start, step, merge, T::narrow);
            }
            ReduceOp::Min => {
                let start = <T::Compute as Float>::INFINITY;
                let (step, merge) = (|a: T::Compute, x, _| a.minimum(x), Float::minimum);
                reduction.fold::<T, T, _>(start, step, merge, T::narrow);
            }
            ReduceOp::LogSumExp => {
                let step = |a: LogSum, x: T::Compute, _| a.plus(LogSum::of(x.to_f64()));
                reduction.fold::<T, T, _>(LogSum::NOTHING, step, LogSum::plus, |sum| {
                    T::from_f64(sum.value())
                });
            }
            ReduceOp::ArgMax | ReduceOp::ArgMaxLast => {
                let last = op == ReduceOp::ArgMaxLast;
                let better =
                    |new: T::Compute, old: T::Compute| new > old || (new.is_nan() && !old.is_nan());
                extreme::index::<T>(reduction, last, better);
            }
            ReduceOp::ArgMin | ReduceOp::ArgMinLast => {
                let last = op == ReduceOp::ArgMinLast;
                let better =
                    |new: T::Compute, old: T::Compute| new < old || (new.is_nan() && !old.is_nan());
                extreme::index::<T>(reduction, last, better);
            }
        }
    }
}

/// A sum of exponentials as `e^top · sum`, which does not overflow.
#[derive(Clone, Copy)]
struct LogSum {
    top: f64,
    sum: f64,
}

impl LogSum {
    const NOTHING: LogSum = LogSum { top: f64::NEG_INFINITY, sum: 0.0 };

    #[inline(always)]
    fn of(exponent: f64) -> Self {
        LogSum { top: exponent, sum: 1.0 }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        if self.top == other.top {
            // Also where both are infinite and their difference is no number.
            LogSum { top: self.top, sum: self.sum + other.sum }
        } else if self.top > other.top {
            LogSum { top: self.top, sum: self.sum + other.sum * (other.top - self.top).exp() }
        } else {
            // NaN comes here and stays.
            LogSum { top: other.top, sum: other.sum + self.sum * (self.top - other.top).exp() }
        }
    }

    fn value(self) -> f64 {
        if self.top.is_infinite() && !self.sum.is_nan() {
            self.top
        } else {
            self.top + self.sum.ln()
        }
    }
}

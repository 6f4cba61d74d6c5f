//! Reductions of floating-point elements. Sums are kept in `f64` and rounded once.

use millstream_core::ReduceOp;

use super::extreme::{Extreme, index};
use super::fold::Reduction;
use crate::kernels::shared::number::{Float, rounded};
use crate::kernels::shared::operand::Computed;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the input is computed in the type `C`.
pub(super) unsafe fn reduce<C: Float + Computed>(op: ReduceOp, reduction: &Reduction<'_>) {
    let (dtype, count) = (reduction.dtype(), reduction.count() as f64);
    let add = |a: f64, b: f64| a + b;
    // SAFETY: passed on.
    unsafe {
        match op {
            ReduceOp::Sum | ReduceOp::Mean => {
                let by = if op == ReduceOp::Mean { count } else { 1.0 };
                let sum = |a: f64, x: C, _| a + x.to_f64();
                reduction.fold::<C, C, _>(0.0, sum, add, |sum| rounded(sum / by, dtype));
            }
            ReduceOp::Prod => {
                let multiply = |a: f64, x: C, _| a * x.to_f64();
                reduction.fold::<C, C, _>(
                    1.0,
                    multiply,
                    |a, b| a * b,
                    |product| rounded(product, dtype),
                );
            }
            ReduceOp::L1 => {
                let add_size = |a: f64, x: C, _| a + x.to_f64().abs();
                reduction.fold::<C, C, _>(0.0, add_size, add, |sum| rounded(sum, dtype));
            }
            ReduceOp::L2 => {
                let add_square = |a: f64, x: C, _| a + x.to_f64() * x.to_f64();
                reduction.fold::<C, C, _>(0.0, add_square, add, |sum| rounded(sum.sqrt(), dtype));
            }
            ReduceOp::Max => {
                let step = |a: C, x, _| a.maximum(x);
                reduction.fold::<C, C, _>(-C::INFINITY, step, C::maximum, |max| max);
            }
            ReduceOp::Min => {
                let step = |a: C, x, _| a.minimum(x);
                reduction.fold::<C, C, _>(C::INFINITY, step, C::minimum, |min| min);
            }
            ReduceOp::LogSumExp => {
                let step = |a: LogSum, x: C, _| a.plus(LogSum::of(x.to_f64()));
                reduction.fold_portable::<C, C, _>(LogSum::NOTHING, step, LogSum::plus, |sum| {
                    rounded(sum.value(), dtype)
                });
            }
            ReduceOp::ArgMax | ReduceOp::ArgMaxLast => {
                let better = |new: C, old: C| new > old || (new.is_nan() && !old.is_nan());
                let extreme = Extreme { better, last: op == ReduceOp::ArgMaxLast };
                let (step, merge) = (|a, x, i| extreme.step(a, x, i), |a, b| extreme.merge(a, b));
                reduction.fold::<C, i64, _>(None, step, merge, index);
            }
            ReduceOp::ArgMin | ReduceOp::ArgMinLast => {
                let better = |new: C, old: C| new < old || (new.is_nan() && !old.is_nan());
                let extreme = Extreme { better, last: op == ReduceOp::ArgMinLast };
                let (step, merge) = (|a, x, i| extreme.step(a, x, i), |a, b| extreme.merge(a, b));
                reduction.fold::<C, i64, _>(None, step, merge, index);
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

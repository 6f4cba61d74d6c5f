//! Reductions of integers. Sums and products wrap around.

use millstream_core::ReduceOp;

use super::extreme;
use super::fold::Reduction;
use crate::kernels::shared::integer::Int;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the input has the type `T`.
pub(super) unsafe fn reduce<T: Int>(op: ReduceOp, reduction: &Reduction<'_>) {
    let same = |value: T| value;
    // SAFETY: passed on.
    unsafe {
        match op {
            ReduceOp::Sum => reduction.fold::<T, T, T>(T::ZERO, |a, x, _| a.add(x), T::add, same),
            ReduceOp::Prod => reduction.fold::<T, T, T>(T::ONE, |a, x, _| a.mul(x), T::mul, same),
            ReduceOp::L1 => {
                reduction.fold::<T, T, T>(T::ZERO, |a, x, _| a.add(x.abs()), T::add, same)
            }
            ReduceOp::Max => reduction.fold::<T, T, T>(T::MIN, |a, x, _| a.max(x), T::max, same),
            ReduceOp::Min => reduction.fold::<T, T, T>(T::MAX, |a, x, _| a.min(x), T::min, same),
            ReduceOp::ArgMax => extreme::index::<T>(reduction, false, |new, old| new > old),
            ReduceOp::ArgMin => extreme::index::<T>(reduction, false, |new, old| new < old),
            ReduceOp::ArgMaxLast => extreme::index::<T>(reduction, true, |new, old| new > old),
            ReduceOp::ArgMinLast => extreme::index::<T>(reduction, true, |new, old| new < old),
            ReduceOp::Mean => {
                let count = reduction.count().max(1);
                let add = |sum: u64, x: T, _| x.add_to(sum);
                reduction.fold::<T, T, u64>(0, add, u64::wrapping_add, |sum| T::mean(sum, count));
            }
            ReduceOp::L2 => {
                let square = |x: T| x.to_i128().unsigned_abs() * x.to_i128().unsigned_abs();
                let add = |sum: u128, x: T, _| sum.saturating_add(square(x));
                // A root has 64 bits.
                let root = |sum: u128| T::clamped(sum.isqrt() as i128);
                reduction.fold::<T, T, u128>(0, add, u128::saturating_add, root);
            }
            ReduceOp::LogSumExp => {
                let step = |a: LogSum, x: T, _| a.plus(LogSum { top: x.to_i128(), sum: 1.0 });
                let finalize = |sum: LogSum| T::clamped(sum.value());
                reduction.fold::<T, T, _>(LogSum::NOTHING, step, LogSum::plus, finalize);
            }
        }
    }
}

/// A sum of exponentials as `e^top · sum`, with an exact top. The sum is 0 or at least 1.
#[derive(Clone, Copy)]
struct LogSum {
    top: i128,
    sum: f64,
}

impl LogSum {
    const NOTHING: LogSum = LogSum { top: i64::MIN as i128, sum: 0.0 };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        let top = self.top.max(other.top);
        let scaled = |part: Self| part.sum * (-((top - part.top) as f64)).exp();
        LogSum { top, sum: scaled(self) + scaled(other) }
    }

    /// The logarithm, rounded towards zero.
    fn value(self) -> i128 {
        if self.sum == 0.0 {
            return i128::MIN;
        }
        let more = self.sum.ln();
        let down = self.top + more.floor() as i128;
        // Below zero, towards zero is up.
        if down >= 0 { down } else { self.top + more.ceil() as i128 }
    }
}

//! Reductions of integers, and of truth values. Sums and products wrap around.

use millstream_core::{DType, ReduceOp};

use super::extreme::{Extreme, index};
use super::fold::Reduction;
use crate::kernels::shared::integer::Int;
use crate::kernels::shared::number::{with_bits, with_computed_int, with_int};
use crate::kernels::shared::operand::Computed;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn reduce(op: ReduceOp, reduction: &Reduction<'_>) {
    let dtype = reduction.dtype();
    // Truth values are the numbers 0 and 1.
    let stored = if dtype == DType::Bool { DType::U8 } else { dtype };
    // SAFETY: passed on; the types are as wide as those of the operands.
    unsafe {
        match op {
            // These wrap around, so a sign changes no bit.
            ReduceOp::Sum => with_bits!(dtype, T => sum::<T>(reduction)),
            ReduceOp::L1 if !dtype.is_signed() => with_bits!(dtype, T => sum::<T>(reduction)),
            ReduceOp::Prod => with_bits!(dtype, T => {
                reduction.fold::<T, T, T>(1, |a, x, _| a.mul(x), T::mul, |product| product);
            }),
            ReduceOp::L1 | ReduceOp::Max | ReduceOp::Min | ReduceOp::Mean => {
                with_int!(stored, T => narrow::<T>(op, reduction));
            }
            ReduceOp::ArgMax
            | ReduceOp::ArgMin
            | ReduceOp::ArgMaxLast
            | ReduceOp::ArgMinLast
            | ReduceOp::L2
            | ReduceOp::LogSumExp => with_computed_int!(dtype, C => wide::<C>(op, reduction)),
        }
    }
}

unsafe fn sum<T: Int + Computed>(reduction: &Reduction<'_>) {
    // SAFETY: passed on.
    unsafe { reduction.fold::<T, T, T>(T::ZERO, |a, x, _| a.add(x), T::add, |sum| sum) }
}

/// What vector instructions do much for, of elements as they are stored.
unsafe fn narrow<T: Int + Computed>(op: ReduceOp, reduction: &Reduction<'_>) {
    let (low, high) = limits(reduction.dtype());
    // SAFETY: passed on.
    unsafe {
        match op {
            ReduceOp::L1 => {
                let step = |a: T, x: T, _| a.add(x.abs());
                reduction.fold::<T, T, T>(T::ZERO, step, T::add, |sum| sum);
            }
            ReduceOp::Max => {
                let start = T::clamped(low);
                reduction.fold::<T, T, T>(start, |a, x, _| a.max(x), T::max, |max| max);
            }
            ReduceOp::Min => {
                let start = T::clamped(high);
                reduction.fold::<T, T, T>(start, |a, x, _| a.min(x), T::min, |min| min);
            }
            ReduceOp::Mean => {
                let count = reduction.count().max(1);
                let add = |sum: u64, x: T, _| x.add_to(sum);
                reduction.fold::<T, T, u64>(0, add, u64::wrapping_add, |sum| T::mean(sum, count));
            }
            other => unreachable!("{other:?} is computed otherwise"),
        }
    }
}

/// What they do little for, with 64 bits.
unsafe fn wide<C: Int + Computed>(op: ReduceOp, reduction: &Reduction<'_>) {
    let (low, high) = limits(reduction.dtype());
    let nearest = |number: i128| C::clamped(number.clamp(low, high));
    // SAFETY: passed on.
    unsafe {
        match op {
            ReduceOp::ArgMax | ReduceOp::ArgMaxLast => {
                let better = |new: C, old: C| new > old;
                let extreme = Extreme { better, last: op == ReduceOp::ArgMaxLast };
                let (step, merge) = (|a, x, i| extreme.step(a, x, i), |a, b| extreme.merge(a, b));
                reduction.fold_portable::<C, i64, _>(None, step, merge, index);
            }
            ReduceOp::ArgMin | ReduceOp::ArgMinLast => {
                let better = |new: C, old: C| new < old;
                let extreme = Extreme { better, last: op == ReduceOp::ArgMinLast };
                let (step, merge) = (|a, x, i| extreme.step(a, x, i), |a, b| extreme.merge(a, b));
                reduction.fold_portable::<C, i64, _>(None, step, merge, index);
            }
            ReduceOp::L2 => {
                let square = |x: C| x.to_i128().unsigned_abs() * x.to_i128().unsigned_abs();
                let add = |sum: u128, x: C, _| sum.saturating_add(square(x));
                // A root has 64 bits.
                let root = |sum: u128| nearest(sum.isqrt() as i128);
                reduction.fold_portable::<C, C, u128>(0, add, u128::saturating_add, root);
            }
            ReduceOp::LogSumExp => {
                let step = |a: LogSum, x: C, _| a.plus(LogSum { top: x.to_i128(), sum: 1.0 });
                let finalize = |sum: LogSum| nearest(sum.value());
                reduction.fold_portable::<C, C, _>(LogSum::NOTHING, step, LogSum::plus, finalize);
            }
            other => unreachable!("{other:?} is computed otherwise"),
        }
    }
}

/// The smallest and the largest number of a type.
fn limits(dtype: DType) -> (i128, i128) {
    let bits = if dtype == DType::Bool { 1 } else { 8 * dtype.size() as u32 };
    if dtype.is_signed() {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
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

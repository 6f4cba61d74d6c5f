//! Reductions of integers, which wrap around.

use millstream_core::ReduceOp;

use super::super::integer::Int;
use super::extreme;
use super::fold::Plan;

/// # Safety
///
/// As for [`execute`](super::super::execute), and the input has the type `T`.
pub(super) unsafe fn reduce<T: Int>(op: ReduceOp, plan: &Plan<'_>) {
    let same = |value: T| value;
    // SAFETY: passed on.
    unsafe {
        match op {
            ReduceOp::Sum => plan.fold::<T, T, T>(T::ZERO, |a, x, _| a.add(x), T::add, same),
            ReduceOp::Prod => plan.fold::<T, T, T>(T::ONE, |a, x, _| a.mul(x), T::mul, same),
            ReduceOp::L1 => plan.fold::<T, T, T>(T::ZERO, |a, x, _| a.add(x.abs()), T::add, same),
            ReduceOp::Max => plan.fold::<T, T, T>(T::MIN, |a, x, _| a.max(x), T::max, same),
            ReduceOp::Min => plan.fold::<T, T, T>(T::MAX, |a, x, _| a.min(x), T::min, same),
            ReduceOp::ArgMax => extreme::index::<T>(plan, |new, old| new > old),
            ReduceOp::ArgMin => extreme::index::<T>(plan, |new, old| new < old),
            ReduceOp::Mean | ReduceOp::L2 | ReduceOp::LogSumExp => {
                unreachable!("{op:?} has no meaning for integers")
            }
        }
    }
}

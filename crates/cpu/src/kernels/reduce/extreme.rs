//! The place of the largest or smallest element.

use super::fold::Reduction;
use crate::kernels::shared::number::Stored;

/// Stores the index of the first, or the last, element that no other is better than.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the input has the type `T`.
pub(super) unsafe fn index<T: Stored>(
    reduction: &Reduction<'_>,
    last: bool,
    better: impl Fn(T::Compute, T::Compute) -> bool + Sync,
) {
    type Best<C> = Option<(C, usize)>;
    let step = |best: Best<T::Compute>, value, index| match best {
        // Within a partial, indices rise, so an equal element is a later one.
        Some((old, _)) if !better(value, old) && (!last || better(old, value)) => best,
        _ => Some((value, index)),
    };
    let merge = |a: Best<T::Compute>, b: Best<T::Compute>| match (a, b) {
        (Some((left, i)), Some((right, j))) => {
            let b_first = if last { j > i } else { j < i };
            let b_wins = better(right, left) || (b_first && !better(left, right));
            if b_wins { b } else { a }
        }
        _ => a.or(b),
    };
    // SAFETY: passed on; the output is `i64`.
    unsafe {
        reduction.fold::<T, i64, Best<T::Compute>>(None, step, merge, |best| {
            best.map_or(0, |(_, index)| index as i64)
        });
    }
}

//! The largest and smallest elements along an axis.

use std::cmp::Ordering;

use millstream_core::{DType, Operand, RawBuffer};

use crate::kernels::shared::block::{BLOCK, BlockBuffer};
use crate::kernels::shared::fault::{Result, try_parallel_for};
use crate::kernels::shared::number::{with_computed_float, with_computed_int};
use crate::kernels::shared::operand::{Computed, Input, Output};
use crate::kernels::shared::parallel::Parallel;
use crate::kernels::shared::scratch::reserve;
use crate::kernels::shared::walk::Walk;

/// Up to so many elements are kept on the stack, in order.
const FEW: usize = 32;

/// Candidates that are kept beyond twice the elements that are asked for.
const MORE: usize = 2048;

/// What is taken.
#[derive(Clone, Copy)]
pub(super) struct Params {
    pub axis: usize,
    pub largest: bool,
    pub sorted: bool,
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn top_k(
    params: Params,
    values: &Operand<RawBuffer>,
    indices: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    let dtype = src.layout.dtype();
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        if dtype.is_float() {
            with_computed_float!(dtype, C => select::<C>(params, values, indices, src, parallel))
        } else {
            with_computed_int!(dtype, C => select::<C>(params, values, indices, src, parallel))
        }
    }
}

/// An element and where it was.
type Entry<C> = (C, usize);

/// Whether `a` goes before `b`, and not only because of its place. NaN is the largest number.
#[inline(always)]
#[allow(clippy::eq_op, reason = "NaN is the one value that differs from itself")]
fn better<C: Copy + PartialOrd>(largest: bool, a: C, b: C) -> bool {
    if largest { a > b || (a != a && b == b) } else { a < b || (a == a && b != b) }
}

fn order<C: Copy + PartialOrd>(largest: bool, a: &Entry<C>, b: &Entry<C>) -> Ordering {
    if better(largest, a.0, b.0) {
        Ordering::Less
    } else if better(largest, b.0, a.0) {
        Ordering::Greater
    } else {
        a.1.cmp(&b.1)
    }
}

unsafe fn select<C: Computed + PartialOrd>(
    params: Params,
    values: &Operand<RawBuffer>,
    indices: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    let layouts = [&values.layout, &indices.layout, &src.layout];
    let rows = Walk::over(layouts, (0..src.layout.rank()).filter(|&other| other != params.axis));
    let row = Walk::over([&src.layout], [params.axis]);
    let k = values.layout.shape()[params.axis];
    if k == 0 {
        return Ok(());
    }
    let steps = [&values.layout, &indices.layout].map(|layout| layout.strides()[params.axis]);
    // SAFETY: passed on.
    let (to, places, input) = unsafe {
        let (to, places) = (Output::<C>::new(values, 0), Output::<i64>::new(indices, 1));
        (to, places, Input::<C>::apart(src, 0))
    };
    // A row may repeat one element any number of times, so only the best so far are kept.
    let room =
        if k <= FEW { 0 } else { k.saturating_mul(2).saturating_add(MORE).min(row.elements()) };
    try_parallel_for(parallel, rows.elements(), row.elements(), |range| {
        let mut many = Vec::new();
        reserve(&mut many, room)?;
        rows.steps(range.start, range.len(), |[value, index, first]| {
            // SAFETY: the row is one of the input.
            let input = unsafe { input.moved(first) };
            let store = |entries: &mut [Entry<C>]| {
                if !params.sorted {
                    entries.sort_unstable_by_key(|entry| entry.1);
                }
                for (i, &(found, place)) in entries.iter().enumerate() {
                    // SAFETY: each output is stored once, by the chunk that has its row.
                    unsafe {
                        to.set(value + i * steps[0], found);
                        places.set(index + i * steps[1], place as i64);
                    }
                }
            };
            if k <= FEW {
                // SAFETY: nobody writes the input.
                let mut entries = unsafe { few(&row, &input, k, params.largest) };
                store(&mut entries[..k]);
                return;
            }
            // SAFETY: nobody writes the input.
            unsafe { best(&row, &input, k, params.largest, &mut many) };
            if params.sorted {
                many.sort_unstable_by(|a, b| order(params.largest, a, b));
            }
            store(&mut many);
        });
        Ok(())
    })
}

/// Calls `body(element, place)` for every element of a row.
///
/// # Safety
///
/// The row lies inside the input, which nobody writes.
#[inline(always)]
unsafe fn each<C: Computed>(row: &Walk<1>, input: &Input<C>, mut body: impl FnMut(C, usize)) {
    let mut scratch = BlockBuffer::new();
    for first in (0..row.elements()).step_by(BLOCK) {
        let len = BLOCK.min(row.elements() - first);
        // SAFETY: passed on.
        let block = unsafe { input.read(row, first, len, &mut scratch) };
        for (i, &x) in block.iter().enumerate() {
            body(x, first + i);
        }
    }
}

/// The best `k` of a row, in order. There are as many.
///
/// # Safety
///
/// As for [`each`].
unsafe fn few<C: Computed + PartialOrd>(
    row: &Walk<1>,
    input: &Input<C>,
    k: usize,
    largest: bool,
) -> [Entry<C>; FEW] {
    // SAFETY: a row has at least `k` elements, which is not 0.
    let first = unsafe { input.get(0) };
    let mut best = [(first, 0); FEW];
    let mut count = 0;
    // SAFETY: passed on.
    unsafe {
        each(row, input, |x, place| {
            if count == k && !better(largest, x, best[k - 1].0) {
                return;
            }
            count = (count + 1).min(k);
            let mut at = count - 1;
            // An equal element that came earlier stays in front.
            while at > 0 && better(largest, x, best[at - 1].0) {
                best[at] = best[at - 1];
                at -= 1;
            }
            best[at] = (x, place);
        });
    }
    best
}

/// The best `k` of a row, in any order. `found` has room for more than `k`, or for the whole row, and
/// does not grow: when it is full all but the best are dropped, and from then on only what is better
/// than the last of these is taken. What comes later loses a tie.
///
/// # Safety
///
/// As for [`each`].
unsafe fn best<C: Computed + PartialOrd>(
    row: &Walk<1>,
    input: &Input<C>,
    k: usize,
    largest: bool,
    found: &mut Vec<Entry<C>>,
) {
    let drop_others = |found: &mut Vec<Entry<C>>| {
        let (_, last, _) = found.select_nth_unstable_by(k - 1, |a, b| order(largest, a, b));
        let last = last.0;
        found.truncate(k);
        last
    };
    found.clear();
    let room = found.capacity();
    let mut last = None;
    // SAFETY: passed on.
    unsafe {
        each(row, input, |x, place| {
            if last.is_some_and(|last| !better(largest, x, last)) {
                return;
            }
            if found.len() == room {
                let worst = drop_others(found);
                last = Some(worst);
                if !better(largest, x, worst) {
                    return;
                }
            }
            found.push((x, place));
        });
    }
    if found.len() > k {
        drop_others(found);
    }
}

#[cfg(test)]
mod tests;

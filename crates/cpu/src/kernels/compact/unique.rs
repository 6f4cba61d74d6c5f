//! Unique: the different elements or slices.

use millstream_core::{DType, Operand, RawBuffer};

use super::{Items, Numbers, store_count, take};
use crate::kernels::shared::block::{BLOCK, BlockBuffer};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::operand::{Computed, Input};
use crate::kernels::shared::parallel::{Parallel, SendPtr, parallel_for};
use crate::kernels::shared::scratch::{collected, filled, push};
use crate::kernels::shared::walk::Walk;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute); the outputs are values, first, inverse, counts and count.
pub(crate) unsafe fn unique(
    axis: Option<usize>,
    sorted: bool,
    outputs: &[Operand<RawBuffer>],
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    let items = Items::new(&src.layout, axis);
    let count = items.all.elements();
    // SAFETY: passed on.
    let ranks = unsafe { ranks(axis, src, parallel)? };
    let mut groups = groups(&ranks, count)?;
    if !sorted {
        groups.in_order_of_firsts()?;
    }
    let different = groups.firsts.len();
    // SAFETY: passed on.
    unsafe {
        take(&items, &groups.firsts, &outputs[0], src, parallel);
        let [first, inverse, counts] = [1, 2, 3].map(|output| Numbers::of(&outputs[output], 0));
        for at in 0..count {
            first.set(0, at, groups.firsts.get(at).copied().unwrap_or(0));
            counts.set(0, at, groups.counts.get(at).copied().unwrap_or(0));
            inverse.set(0, at, groups.inverse[at]);
        }
        store_count(&outputs[4], different);
    }
    Ok(())
}

/// Numbers in whose order the elements come, slice by slice.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
unsafe fn ranks(
    axis: Option<usize>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result<Vec<u64>> {
    let layout = &src.layout;
    let others = (0..layout.rank()).filter(|&other| Some(other) != axis);
    let walk = Walk::over([layout], axis.into_iter().chain(others));
    let mut ranks = filled(walk.elements(), 0u64)?;
    let list = SendPtr::new(ranks.as_mut_ptr());
    // SAFETY: passed on.
    unsafe {
        match layout.dtype() {
            DType::F64 => fill::<f64>(&walk, src, list, parallel, float),
            dtype if dtype.is_float() => {
                fill::<f32>(&walk, src, list, parallel, |x| float(f64::from(x)));
            }
            // The smallest is 0.
            dtype if dtype.is_signed() => {
                fill::<i64>(&walk, src, list, parallel, |x| x.wrapping_sub(i64::MIN) as u64);
            }
            _ => fill::<u64>(&walk, src, list, parallel, |x| x),
        }
    }
    Ok(ranks)
}

unsafe fn fill<C: Computed>(
    walk: &Walk<1>,
    src: &Operand<RawBuffer>,
    list: SendPtr<u64>,
    parallel: &dyn Parallel,
    rank: impl Fn(C) -> u64 + Sync,
) {
    // SAFETY: passed on.
    let input = unsafe { Input::<C>::apart(src, 0) };
    parallel_for(parallel, walk.elements(), 1, |range| {
        walk.blocks(range, BLOCK, |start, len| {
            let mut scratch = BlockBuffer::new();
            // SAFETY: blocks are disjoint parts of the list, and belong to the input.
            unsafe {
                for (i, &x) in input.read(walk, start, len, &mut scratch).iter().enumerate() {
                    list.get().add(start + i).write(rank(x));
                }
            }
        });
    });
}

/// NaN comes last and equals itself, and zeros are equal.
fn float(x: f64) -> u64 {
    let bits = x.to_bits();
    match () {
        _ if x.is_nan() => u64::MAX,
        _ if x == 0.0 => 1 << 63,
        _ if x < 0.0 => !bits,
        _ => bits | 1 << 63,
    }
}

/// The different items.
struct UniqueGroups {
    /// The first item of each.
    firsts: Vec<usize>,
    /// How many items it has.
    counts: Vec<usize>,
    /// Which one an item is.
    inverse: Vec<usize>,
}

/// Those of items whose ranks are one behind the other, in rising order.
fn groups(ranks: &[u64], count: usize) -> Result<UniqueGroups> {
    let size = ranks.len().checked_div(count).unwrap_or(0);
    let rank = |item: usize| &ranks[item * size..(item + 1) * size];
    let mut order = collected(0..count)?;
    match size {
        1 => order.sort_unstable_by_key(|&item| (ranks[item], item)),
        _ => order.sort_unstable_by(|&a, &b| rank(a).cmp(rank(b)).then(a.cmp(&b))),
    }
    let mut groups =
        UniqueGroups { firsts: Vec::new(), counts: Vec::new(), inverse: filled(count, 0usize)? };
    for (place, &item) in order.iter().enumerate() {
        if place == 0 || rank(order[place - 1]) != rank(item) {
            push(&mut groups.firsts, item)?;
            push(&mut groups.counts, 0)?;
        }
        let kind = groups.firsts.len() - 1;
        groups.counts[kind] += 1;
        groups.inverse[item] = kind;
    }
    Ok(groups)
}

impl UniqueGroups {
    fn in_order_of_firsts(&mut self) -> Result {
        let mut order = collected(0..self.firsts.len())?;
        order.sort_unstable_by_key(|&kind| self.firsts[kind]);
        let mut numbers = filled(order.len(), 0usize)?;
        for (number, &kind) in order.iter().enumerate() {
            numbers[kind] = number;
        }
        self.inverse.iter_mut().for_each(|kind| *kind = numbers[*kind]);
        self.counts = collected(order.iter().map(|&kind| self.counts[kind]))?;
        self.firsts = collected(order.iter().map(|&kind| self.firsts[kind]))?;
        Ok(())
    }
}

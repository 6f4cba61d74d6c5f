//! What is different.

use millstream_core::{DType, Operand, RawBuffer};

use super::{Items, Numbers, store_count, take};
use crate::kernels::shared::block::{BLOCK, Input, Scratch, base};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::integer::Int;
use crate::kernels::shared::number::{Bool, Float, Stored, with_float, with_int};
use crate::kernels::shared::parallel::{Parallel, Shared, share};
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
    let mut kinds = kinds(&ranks, count)?;
    if !sorted {
        kinds.in_order_of_firsts()?;
    }
    let different = kinds.firsts.len();
    // SAFETY: passed on.
    unsafe {
        take(&items, &kinds.firsts, &outputs[0], src, parallel);
        let [first, inverse, counts] = [1, 2, 3].map(|output| Numbers::of(&outputs[output], 0));
        for at in 0..count {
            first.set(0, at, kinds.firsts.get(at).copied().unwrap_or(0));
            counts.set(0, at, kinds.counts.get(at).copied().unwrap_or(0));
            inverse.set(0, at, kinds.inverse[at]);
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
    let list = Shared::new(ranks.as_mut_ptr());
    // SAFETY: passed on; the types are those of the operand.
    unsafe {
        match layout.dtype() {
            DType::Bool => fill::<Bool>(&walk, src, list, parallel, u64::from),
            dtype if dtype.is_float() => with_float!(dtype, T => {
                fill::<T>(&walk, src, list, parallel, |x| float(Float::to_f64(x)));
            }),
            dtype => with_int!(dtype, T => {
                fill::<T>(&walk, src, list, parallel, |x| {
                    (x.to_i128() - <T as Int>::MIN.to_i128()) as u64
                });
            }),
        }
    }
    Ok(ranks)
}

unsafe fn fill<T: Stored>(
    walk: &Walk<1>,
    src: &Operand<RawBuffer>,
    list: Shared<u64>,
    parallel: &dyn Parallel,
    rank: impl Fn(T::Compute) -> u64 + Sync,
) {
    // SAFETY: passed on.
    let input = Input::<T>::new(unsafe { base(src) }, 0, std::ptr::null::<T>());
    share(parallel, walk.elements(), 1, |range| {
        walk.blocks(range, BLOCK, |start, len| {
            let mut scratch = Scratch::new();
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
struct Kinds {
    /// The first item of each.
    firsts: Vec<usize>,
    /// How many items it has.
    counts: Vec<usize>,
    /// Which one an item is.
    inverse: Vec<usize>,
}

/// Those of items whose ranks are one behind the other, in rising order.
fn kinds(ranks: &[u64], count: usize) -> Result<Kinds> {
    let size = ranks.len().checked_div(count).unwrap_or(0);
    let rank = |item: usize| &ranks[item * size..(item + 1) * size];
    let mut order = collected(0..count)?;
    match size {
        1 => order.sort_unstable_by_key(|&item| (ranks[item], item)),
        _ => order.sort_unstable_by(|&a, &b| rank(a).cmp(rank(b)).then(a.cmp(&b))),
    }
    let mut kinds =
        Kinds { firsts: Vec::new(), counts: Vec::new(), inverse: filled(count, 0usize)? };
    for (place, &item) in order.iter().enumerate() {
        if place == 0 || rank(order[place - 1]) != rank(item) {
            push(&mut kinds.firsts, item)?;
            push(&mut kinds.counts, 0)?;
        }
        let kind = kinds.firsts.len() - 1;
        kinds.counts[kind] += 1;
        kinds.inverse[item] = kind;
    }
    Ok(kinds)
}

impl Kinds {
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

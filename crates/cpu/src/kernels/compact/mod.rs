//! What only the data knows the size of. What is not found is 0.

mod compress;
mod nms;
mod nonzero;
mod unique;

#[cfg(test)]
mod tests;

pub(super) use compress::compress;
pub(super) use nms::{NmsParams, non_max_suppression};
pub(super) use nonzero::nonzero;
pub(super) use unique::unique;

use std::ops::Range;

use millstream_core::{Layout, Operand, RawBuffer};

use crate::kernels::shared::block::{BLOCK, base};
use crate::kernels::shared::fault::Result;
use crate::kernels::shared::number::with_bits;
use crate::kernels::shared::parallel::{Parallel, Shared, share};
use crate::kernels::shared::scratch::filled;
use crate::kernels::shared::slice;
use crate::kernels::shared::walk::Walk;

/// Elements whose flags are counted by one chunk.
const CHUNK: usize = 32 * BLOCK;

/// Calls `found(place, index)` for every index of `0..count` whose flag is set, places counting up from 0 with the
/// indices, and gives how many there are. `flags(first, list)` sets the flags from `first` on.
fn each_flagged(
    count: usize,
    parallel: &dyn Parallel,
    flags: impl Fn(usize, &mut [bool]) + Sync,
    found: impl Fn(usize, usize) + Sync,
) -> Result<usize> {
    let chunks = count.div_ceil(CHUNK);
    let blocks = |chunk: usize, body: &mut dyn FnMut(usize, &[bool])| {
        let end = count.min((chunk + 1) * CHUNK);
        for first in (chunk * CHUNK..end).step_by(BLOCK) {
            let mut list = [false; BLOCK];
            let list = &mut list[..BLOCK.min(end - first)];
            flags(first, list);
            body(first, list);
        }
    };
    let run = |body: &(dyn Fn(usize) + Sync)| match chunks {
        0 => {}
        1 => body(0),
        _ => parallel.run(chunks, body),
    };
    let mut totals = filled(chunks, 0usize)?;
    let shared = Shared::new(totals.as_mut_ptr());
    run(&|chunk| {
        let mut total = 0;
        blocks(chunk, &mut |_, list| total += list.iter().filter(|&&flag| flag).count());
        // SAFETY: each chunk has a total of its own.
        unsafe { shared.get().add(chunk).write(total) };
    });
    let mut sum = 0;
    for total in &mut totals {
        sum += std::mem::replace(total, sum);
    }
    let totals = &totals;
    run(&|chunk| {
        let mut place = totals[chunk];
        blocks(chunk, &mut |first, list| {
            for (i, _) in list.iter().enumerate().filter(|(_, flag)| **flag) {
                found(place, first + i);
                place += 1;
            }
        });
    });
    Ok(sum)
}

/// Writes how many there are.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute); the operand is one `i64`.
unsafe fn store_count(count: &Operand<RawBuffer>, number: usize) {
    // SAFETY: passed on.
    unsafe { base::<i64>(count).write(number as i64) };
}

/// A list of `i64` that is written element by element.
#[derive(Clone, Copy)]
struct Numbers {
    first: Shared<i64>,
    stride: usize,
}

impl Numbers {
    /// Those along an axis of an operand.
    ///
    /// # Safety
    ///
    /// As for [`base`].
    unsafe fn of(operand: &Operand<RawBuffer>, axis: usize) -> Self {
        // SAFETY: passed on.
        let first = Shared::new(unsafe { base::<i64>(operand) });
        Numbers { first, stride: operand.layout.strides()[axis] }
    }

    /// Stores a number, `offset` elements beside the list.
    ///
    /// # Safety
    ///
    /// The element belongs to the operand, and nobody else writes it.
    unsafe fn set(&self, offset: usize, place: usize, number: usize) {
        // SAFETY: passed on.
        unsafe { self.first.get().add(offset + place * self.stride).write(number as i64) };
    }
}

/// The slices of an operand along an axis, or its elements in row-major order.
struct Items {
    /// All of them.
    all: Walk<1>,
    axis: Option<usize>,
}

impl Items {
    fn new(layout: &Layout, axis: Option<usize>) -> Self {
        let all = match axis {
            Some(axis) => Walk::over([layout], [axis]),
            None => Walk::in_order([layout]),
        };
        Items { all, axis }
    }
}

/// Makes `dst` of some of the items of `src`, given by their numbers, and of zeros behind them.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the items exist.
unsafe fn take(
    items: &Items,
    wanted: &[usize],
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let axis = items.axis.unwrap_or(0);
    let layouts = [&dst.layout, &src.layout];
    let (rows, part) = match items.axis {
        Some(_) => (Walk::over(layouts, 0..axis), Walk::over(layouts, axis + 1..dst.layout.rank())),
        None => (Walk::from_axes(std::iter::empty()), Walk::from_axes(std::iter::empty())),
    };
    let zeros = Walk::from_axes(part.axes().map(|(size, [to, _])| (size, [to])));
    let (room, step) = (dst.layout.shape()[axis], dst.layout.strides()[axis]);
    if dst.layout.is_empty() {
        return;
    }
    with_bits!(dst.layout.dtype(), Bits => {
        // SAFETY: passed on; bits of the size of the elements stand for them.
        let (to, from) =
            unsafe { (Shared::<Bits>::new(base(dst)), Shared::<Bits>::new(base(src))) };
        share(parallel, rows.elements() * room, part.elements(), |range: Range<usize>| {
            for at in range {
                let (row, place) = (at / room, at % room);
                // SAFETY: slices of the output are disjoint, and all lie inside their operands.
                unsafe {
                    let to = to.get().add(rows.position(0, row) + place * step);
                    match wanted.get(place) {
                        Some(&item) => {
                            let source = rows.position(1, row) + items.all.position(0, item);
                            slice::copy(&part, to, from.get().add(source), 0..part.elements());
                        }
                        None => slice::fill(&zeros, to, 0),
                    }
                }
            }
        });
    });
}

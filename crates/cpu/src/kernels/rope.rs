//! Rotary embedding.
//!
//! Pairs of a row are taken some at a time into arrays of their own and rotated there, so that the loops are made
//! of vectors, and an output may lie where the input does.

use std::mem::MaybeUninit;
use std::ops::Range;

use millstream_core::{DType, Operand, RawBuffer};

use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{KernelFault, Result, try_share};
use crate::kernels::shared::lengths::Lengths;
use crate::kernels::shared::number::{Float, StoredFloat, with_float};
use crate::kernels::shared::parallel::{Parallel, Shared};
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// Pairs that are rotated at once.
const PAIRS: usize = 64;

/// The operands of a rotary embedding.
pub(super) struct Operands<'a> {
    pub dst: &'a Operand<RawBuffer>,
    pub src: &'a Operand<RawBuffer>,
    pub cos: &'a Operand<RawBuffer>,
    pub sin: &'a Operand<RawBuffer>,
    pub positions: Option<&'a Operand<RawBuffer>>,
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn rope(
    interleaved: bool,
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
) -> Result {
    let layout = &operands.dst.layout;
    if layout.is_empty() {
        return Ok(());
    }
    let shape = std::array::from_fn(|axis| layout.shape()[axis]);
    with_float!(layout.dtype(), T => {
        // SAFETY: passed on; the types are those of the operands.
        unsafe {
            let rope = Rope::<T>::new(interleaved, shape, operands);
            rope.check()?;
            let rows = shape[0] * shape[1] * shape[2];
            try_share(parallel, rows, 2 * shape[3], |range| {
                vectorized(Rows { rope: &rope, range });
                Ok(())
            })
        }
    })
}

/// Elements of a row, with their distance.
#[derive(Clone, Copy)]
struct Line<T> {
    first: *mut T,
    step: usize,
}

impl<T: StoredFloat> Line<T> {
    fn from(self, start: usize) -> Self {
        Self { first: self.first.wrapping_add(start * self.step), step: self.step }
    }

    fn every_other(self) -> Self {
        Self { first: self.first, step: 2 * self.step }
    }

    #[inline(always)]
    unsafe fn load(self, to: &mut [MaybeUninit<T::Compute>]) {
        // SAFETY: the caller says that there are so many elements, which nobody writes meanwhile.
        unsafe {
            if self.step == 1 {
                T::widen_run(std::slice::from_raw_parts(self.first, to.len()), to);
            } else {
                for (index, to) in to.iter_mut().enumerate() {
                    to.write(self.first.add(index * self.step).read().widen());
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, from: &[T::Compute]) {
        // SAFETY: the caller says that there are so many elements, which nobody else touches.
        unsafe {
            if self.step == 1 {
                let to = std::slice::from_raw_parts_mut(self.first.cast(), from.len());
                T::narrow_run(from, to);
            } else {
                for (index, &from) in from.iter().enumerate() {
                    self.first.add(index * self.step).write(T::narrow(from));
                }
            }
        }
    }
}

struct Rope<T> {
    interleaved: bool,
    shape: [usize; 4],
    pairs: usize,
    dst: (Shared<T>, [usize; 4]),
    src: (Shared<T>, [usize; 4]),
    /// Of batch, place in it, row of the table, and pair.
    tables: [(Shared<T>, [usize; 4]); 2],
    /// With what there is of rows of the table, and the distance between batches.
    positions: Option<(Lengths, usize, usize)>,
}

impl<T: StoredFloat> Rope<T> {
    unsafe fn new(interleaved: bool, shape: [usize; 4], operands: &Operands<'_>) -> Self {
        // SAFETY: passed on.
        let whole = |operand: &Operand<RawBuffer>| unsafe {
            let strides = operand.layout.strides();
            (Shared::new(base(operand)), std::array::from_fn(|axis| strides[axis]))
        };
        // SAFETY: passed on.
        let table = |operand: &Operand<RawBuffer>| unsafe {
            let strides = match *operand.layout.strides() {
                [row, pair] => [0, 0, row, pair],
                [batch, place, pair] => [batch, place, 0, pair],
                _ => [0; 4],
            };
            (Shared::new(base(operand)), strides)
        };
        let size = |axis: usize| operands.cos.layout.shape()[axis];
        Rope {
            interleaved,
            shape,
            pairs: size(operands.cos.layout.rank() - 1),
            dst: whole(operands.dst),
            src: whole(operands.src),
            tables: [table(operands.cos), table(operands.sin)],
            positions: operands.positions.map(|positions| {
                let batch = positions.layout.strides()[0];
                // SAFETY: passed on.
                (unsafe { Lengths::new(positions) }, size(0), batch)
            }),
        }
    }

    /// Whether every position has a row in the tables.
    unsafe fn check(&self) -> Result {
        let Some((_, most, _)) = self.positions else { return Ok(()) };
        for batch in 0..self.shape[0] {
            for place in 0..self.shape[2] {
                // SAFETY: passed on.
                let row = unsafe { self.table_row(batch, place) };
                if usize::try_from(row).is_ok_and(|row| row < most) {
                    continue;
                }
                let message = format!("position {row} is outside tables of {most} rows");
                return Err(KernelFault::new(message));
            }
        }
        Ok(())
    }

    unsafe fn table_row(&self, batch: usize, place: usize) -> i64 {
        // SAFETY: there is a position for each place.
        self.positions.map_or(0, |(given, _, stride)| unsafe { given.given(batch * stride, place) })
    }

    #[inline(always)]
    unsafe fn row(&self, row: usize) {
        let [_, heads, length, size] = self.shape;
        let (place, head) = (row % length, row / length % heads);
        let batch = row / length / heads;
        let line = |(first, strides): (Shared<T>, [usize; 4]), at: [usize; 3]| {
            let offset: usize = at.iter().zip(&strides).map(|(at, by)| at * by).sum();
            Line { first: first.get().wrapping_add(offset), step: strides[3] }
        };
        let (to, from) =
            (line(self.dst, [batch, head, place]), line(self.src, [batch, head, place]));
        // SAFETY: rows of the tables were checked, and rows of the output are apart.
        unsafe {
            let index = self.table_row(batch, place) as usize;
            let tables = self.tables.map(|table| line(table, [batch, place, index]));
            for first in (0..self.pairs).step_by(PAIRS) {
                let count = PAIRS.min(self.pairs - first);
                let halves = |line: Line<T>| match self.interleaved {
                    true => [line.from(2 * first), line.from(2 * first + 1)].map(Line::every_other),
                    false => [line.from(first), line.from(self.pairs + first)],
                };
                let [x, y] = halves(from);
                let [cos, sin] = tables.map(|table| table.from(first));
                rotate(count, [x, y, cos, sin], halves(to));
            }
            let mut rest = [T::Compute::ZERO; 2 * PAIRS];
            for first in (2 * self.pairs..size).step_by(rest.len()) {
                let rest = &mut rest[..(size - first).min(2 * PAIRS)];
                from.from(first).load(as_uninit(rest));
                to.from(first).store(rest);
            }
        }
    }
}

/// Rotates some pairs.
#[inline(always)]
unsafe fn rotate<T: StoredFloat>(count: usize, from: [Line<T>; 4], to: [Line<T>; 2]) {
    let mut lines = [[T::Compute::ZERO; PAIRS]; 4];
    for (line, from) in lines.iter_mut().zip(from) {
        // SAFETY: passed on.
        unsafe { from.load(as_uninit(&mut line[..count])) };
    }
    let [x, y, cos, sin] = &mut lines;
    // All of them: more than there are cost less than to count.
    for pair in 0..PAIRS {
        let (a, b) = (x[pair], y[pair]);
        x[pair] = a * cos[pair] - b * sin[pair];
        y[pair] = b * cos[pair] + a * sin[pair];
    }
    // SAFETY: passed on.
    unsafe {
        to[0].store(&x[..count]);
        to[1].store(&y[..count]);
    }
}

/// Numbers as memory that is to be written.
#[inline(always)]
fn as_uninit<F>(numbers: &mut [F]) -> &mut [MaybeUninit<F>] {
    // SAFETY: both have one layout, and those who are given this write numbers alone.
    unsafe { &mut *(std::ptr::from_mut(numbers) as *mut [MaybeUninit<F>]) }
}

/// Some rows.
struct Rows<'a, T> {
    rope: &'a Rope<T>,
    range: Range<usize>,
}

impl<T: StoredFloat> SimdFn for Rows<'_, T> {
    #[inline(always)]
    fn run(self) {
        for row in self.range {
            // SAFETY: ranges are disjoint, and whoever made the operands says that they are there.
            unsafe { self.rope.row(row) };
        }
    }
}

#[cfg(test)]
mod tests;

//! Elements in the opposite order.

use std::ops::Range;

use millstream_core::{Axes, DType, MAX_RANK, Operand, RawBuffer};

use crate::kernels::shared::block::base;
use crate::kernels::shared::fault::{KernelFault, Result};
use crate::kernels::shared::number::with_bits;
use crate::kernels::shared::parallel::{Parallel, Shared, share};
use crate::kernels::shared::scratch::{push, reserve};
use crate::kernels::shared::slice;
use crate::kernels::shared::walk::Walk;

/// Reverses along some axes. With lengths and the axis that they belong to, only so many elements are.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn reverse(
    axes: Axes,
    lengths: Option<(&Operand<RawBuffer>, usize)>,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) -> Result {
    if dst.layout.is_empty() {
        return Ok(());
    }
    let time = axes.iter().next().unwrap_or(0);
    let most = src.layout.shape().get(time).copied().unwrap_or(0);
    let batch = match lengths {
        // SAFETY: passed on.
        Some((lengths, axis)) => Some((axis, unsafe { read(lengths, most)? })),
        None => None,
    };
    let reversal = Reversal::new(axes, time, batch, dst, src);
    with_bits!(dst.layout.dtype(), Bits => {
        // SAFETY: passed on; bits of the size of the elements stand for them.
        let (to, from) =
            unsafe { (Shared::<Bits>::new(base(dst)), Shared::<Bits>::new(base(src))) };
        let size = reversal.axes[reversal.last].size;
        let rows: usize = reversal.axes[..reversal.last].iter().map(|axis| axis.size).product();
        share(parallel, rows * size, reversal.slice.elements(), |range| {
            let mut at = range.start;
            while at < range.end {
                let (row, first) = (at / size, at % size);
                let count = (size - first).min(range.end - at);
                // SAFETY: parts of rows are disjoint parts of the output, and the reversal leads to elements of
                // the input.
                unsafe { reversal.part(row, first..first + count, to.get(), from.get()) };
                at += count;
            }
        });
    });
    Ok(())
}

/// Lengths, none of which is more than an axis has.
unsafe fn read(lengths: &Operand<RawBuffer>, most: usize) -> Result<Vec<usize>> {
    let (count, stride) = (lengths.layout.shape()[0], lengths.layout.strides()[0]);
    let mut list = Vec::new();
    reserve(&mut list, count)?;
    for at in 0..count {
        // SAFETY: passed on; the type is that of the operand.
        let length = unsafe {
            match lengths.layout.dtype() {
                DType::I64 => base::<i64>(lengths).add(at * stride).read(),
                _ => i64::from(base::<i32>(lengths).add(at * stride).read()),
            }
        };
        match usize::try_from(length) {
            Ok(length) if length <= most => push(&mut list, length)?,
            _ => {
                return Err(KernelFault::new(format!(
                    "length {length} is outside an axis of size {most}"
                )));
            }
        }
    }
    Ok(list)
}

/// One axis of both operands.
#[derive(Clone, Copy, Default)]
struct Axis {
    size: usize,
    /// Elements from the first on that are reversed.
    length: usize,
    /// Strides of output and input.
    strides: [usize; 2],
}

impl Axis {
    fn source(&self, at: usize) -> usize {
        if at < self.length { self.length - 1 - at } else { at }
    }
}

/// The axes before `last` make rows; those behind it are never reversed.
struct Reversal {
    axes: [Axis; MAX_RANK],
    last: usize,
    /// The axis that is reversed by lengths, where there are any.
    time: usize,
    /// The axis that lengths belong to, and the lengths.
    batch: Option<(usize, Vec<usize>)>,
    slice: Walk<2>,
}

impl Reversal {
    fn new(
        reversed: Axes,
        time: usize,
        batch: Option<(usize, Vec<usize>)>,
        dst: &Operand<RawBuffer>,
        src: &Operand<RawBuffer>,
    ) -> Self {
        let mut axes = [Axis { size: 1, ..Axis::default() }; MAX_RANK];
        let layouts = [&dst.layout, &src.layout];
        for (axis, place) in axes[..dst.layout.rank()].iter_mut().enumerate() {
            let size = dst.layout.shape()[axis];
            let length = if reversed.contains(axis) { size } else { 0 };
            *place = Axis { size, length, strides: layouts.map(|layout| layout.strides()[axis]) };
        }
        let last = reversed.iter().chain(batch.as_ref().map(|batch| batch.0)).max().unwrap_or(0);
        Reversal {
            axes,
            last,
            time,
            batch,
            slice: Walk::over(layouts, last + 1..dst.layout.rank().max(last + 1)),
        }
    }

    /// Makes some of the slices of one row.
    ///
    /// # Safety
    ///
    /// The pointers are the first elements of the operands, and nobody else touches these slices.
    unsafe fn part<T: Copy>(&self, row: usize, part: Range<usize>, to: *mut T, from: *const T) {
        let (mut places, mut rest) = ([0; MAX_RANK], row);
        for (place, axis) in places[..self.last].iter_mut().zip(&self.axes).rev() {
            *place = rest % axis.size;
            rest /= axis.size;
        }
        let mut axes = self.axes;
        if let Some((batch, lengths)) = &self.batch {
            if *batch == self.last {
                for at in part {
                    axes[self.time].length = lengths[at];
                    // SAFETY: passed on.
                    unsafe { self.run(&axes, &places, at..at + 1, to, from) };
                }
                return;
            }
            axes[self.time].length = lengths[places[*batch]];
        }
        // SAFETY: passed on.
        unsafe { self.run(&axes, &places, part, to, from) };
    }

    unsafe fn run<T: Copy>(
        &self,
        axes: &[Axis; MAX_RANK],
        places: &[usize; MAX_RANK],
        part: Range<usize>,
        to: *mut T,
        from: *const T,
    ) {
        let (mut target, mut source) = (0, 0);
        for (axis, &at) in axes[..self.last].iter().zip(places) {
            target += at * axis.strides[0];
            source += axis.source(at) * axis.strides[1];
        }
        let axis = axes[self.last];
        let [step, stride] = axis.strides;
        // SAFETY: all coordinates are inside the operands.
        unsafe {
            let (to, from) = (to.add(target), from.add(source));
            if self.slice.elements() == 1 && part.end <= axis.length {
                let from = from.add(axis.source(part.end - 1) * stride);
                return copy_reversed(to.add(part.start * step), from, part.len(), [step, stride]);
            }
            for at in part {
                let (to, from) = (to.add(at * step), from.add(axis.source(at) * stride));
                slice::copy(&self.slice, to, from, 0..self.slice.elements());
            }
        }
    }
}

/// Copies elements in the opposite order; `from` is the one that comes last.
///
/// # Safety
///
/// So many elements are valid at both places, and apart.
unsafe fn copy_reversed<T: Copy>(to: *mut T, from: *const T, count: usize, strides: [usize; 2]) {
    // SAFETY: passed on.
    unsafe {
        if strides == [1, 1] {
            let from = std::slice::from_raw_parts(from, count);
            for (i, &value) in from.iter().rev().enumerate() {
                to.add(i).write(value);
            }
        } else {
            for i in 0..count {
                to.add(i * strides[0]).write(from.add((count - 1 - i) * strides[1]).read());
            }
        }
    }
}

#[cfg(test)]
mod tests;

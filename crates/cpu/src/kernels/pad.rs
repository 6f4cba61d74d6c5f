//! Padding and cropping.

use millstream_core::{MAX_RANK, Operand, PadMode, PadParams, RawBuffer, Scalar};

use crate::kernels::copy;
use crate::kernels::shared::block::base;
use crate::kernels::shared::number::with_bits;
use crate::kernels::shared::parallel::{Parallel, Shared, share};
use crate::kernels::shared::slice;
use crate::kernels::shared::walk::Walk;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn pad(
    params: &PadParams,
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let rank = dst.layout.rank();
    let changed = |axis: &usize| params.before[*axis] != 0 || params.after[*axis] != 0;
    if dst.layout.is_empty() {
        return;
    }
    let Some(last) = (0..rank).rev().find(changed) else {
        // SAFETY: passed on; the shapes are the same.
        return unsafe { copy::copy(dst, src, parallel) };
    };
    let padding = Padding::new(params, last, dst, src);
    let value = match params.mode {
        PadMode::Constant(value) => value,
        _ => Scalar::Int(0),
    };
    with_bits!(dst.layout.dtype(), Bits => {
        let mut bytes = [0; size_of::<Bits>()];
        bytes.copy_from_slice(&value.to_bytes(dst.layout.dtype())[..size_of::<Bits>()]);
        let value = Bits::from_ne_bytes(bytes);
        // SAFETY: passed on; bits of the size of the elements stand for them.
        let (to, from) =
            unsafe { (Shared::<Bits>::new(base(dst)), Shared::<Bits>::new(base(src))) };
        let rows = dst.layout.shape()[..last].iter().product();
        share(parallel, rows, padding.whole.elements(), |range| {
            for row in range {
                // SAFETY: rows are disjoint parts of the output, and the padding leads to elements of
                // the input.
                unsafe { padding.row(row, to.get(), from.get(), value) };
            }
        });
    });
}

/// One axis of both operands.
#[derive(Clone, Copy, Default)]
struct Axis {
    /// Elements that are added before the first.
    lead: usize,
    /// Elements of the input that are used, and the first of them.
    kept: usize,
    first: usize,
    /// Elements of the output.
    size: usize,
    /// Strides of output and input.
    strides: [usize; 2],
}

impl Axis {
    /// The coordinate in the input that a coordinate in the output shows; none for a constant.
    fn source(&self, mode: PadMode, at: usize) -> Option<usize> {
        let place = at as isize - self.lead as isize;
        let kept = self.kept as isize;
        let inside = if (0..kept).contains(&place) {
            place
        } else {
            match mode {
                PadMode::Constant(_) => return None,
                PadMode::Edge => place.clamp(0, kept - 1),
                PadMode::Wrap => place.rem_euclid(kept),
                PadMode::Reflect if kept == 1 => 0,
                PadMode::Reflect => {
                    let turn = place.rem_euclid(2 * (kept - 1));
                    turn.min(2 * (kept - 1) - turn)
                }
            }
        };
        Some(self.first + inside as usize)
    }
}

/// The axes before `last` make rows; those behind it are never padded.
struct Padding {
    mode: PadMode,
    last: usize,
    axes: [Axis; MAX_RANK],
    /// One row of the output, from axis `last` on.
    whole: Walk<1>,
    /// What of a row is copied, what is added before and after it, and the slice at one coordinate.
    middle: Walk<2>,
    before: Walk<1>,
    after: Walk<1>,
    slice: Walk<2>,
}

impl Padding {
    fn new(
        params: &PadParams,
        last: usize,
        dst: &Operand<RawBuffer>,
        src: &Operand<RawBuffer>,
    ) -> Self {
        let mut axes = [Axis::default(); MAX_RANK];
        let (to, from) = (&dst.layout, &src.layout);
        for (axis, place) in axes[..to.rank()].iter_mut().enumerate() {
            let (before, after) = (params.before[axis], params.after[axis]);
            let first = (-before).max(0) as usize;
            *place = Axis {
                lead: before.max(0) as usize,
                kept: from.shape()[axis] - first - (-after).max(0) as usize,
                first,
                size: to.shape()[axis],
                strides: [to.strides()[axis], from.strides()[axis]],
            };
        }
        let behind = || axes[last + 1..to.rank()].iter().map(|axis| (axis.size, axis.strides));
        let row = |size: usize| {
            let axis = (size, [axes[last].strides[0]]);
            let behind = behind().map(|(size, strides)| (size, [strides[0]]));
            Walk::from_axes(std::iter::once(axis).chain(behind))
        };
        let Axis { lead, kept, size, strides, .. } = axes[last];
        Padding {
            mode: params.mode,
            last,
            axes,
            whole: row(size),
            middle: Walk::from_axes(std::iter::once((kept, strides)).chain(behind())),
            before: row(lead),
            after: row(size - lead - kept),
            slice: Walk::from_axes(behind()),
        }
    }

    /// Makes one row of the output.
    ///
    /// # Safety
    ///
    /// The pointers are the first elements of the operands, and nobody else touches the row.
    unsafe fn row<T: Copy>(&self, row: usize, to: *mut T, from: *const T, value: T) {
        let (mut rest, mut target, mut source) = (row, 0, Some(0));
        for axis in self.axes[..self.last].iter().rev() {
            let at = rest % axis.size;
            rest /= axis.size;
            target += at * axis.strides[0];
            let place = axis.source(self.mode, at);
            source = source.zip(place).map(|(sum, place)| sum + place * axis.strides[1]);
        }
        let axis = &self.axes[self.last];
        let [step, stride] = axis.strides;
        // SAFETY: all coordinates are inside the operands.
        unsafe {
            let to = to.add(target);
            let Some(source) = source else { return slice::fill(&self.whole, to, value) };
            let middle = to.add(axis.lead * step);
            if axis.kept > 0 {
                let from = from.add(source + axis.first * stride);
                slice::copy(&self.middle, middle, from, 0..self.middle.elements());
            }
            let end = axis.lead + axis.kept;
            if matches!(self.mode, PadMode::Constant(_)) {
                slice::fill(&self.before, to, value);
                if end < axis.size {
                    slice::fill(&self.after, to.add(end * step), value);
                }
                return;
            }
            for at in (0..axis.lead).chain(end..axis.size) {
                let place = axis.source(self.mode, at).unwrap_or(0);
                let from = from.add(source + place * stride);
                slice::copy(&self.slice, to.add(at * step), from, 0..self.slice.elements());
            }
        }
    }
}

#[cfg(test)]
mod tests;

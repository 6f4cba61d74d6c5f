//! Conversion to and from numbers of 4 bits with a scale. Two share a byte, the first in the low bits.

use millstream_core::{DType, Operand, PackedAxis, QuantizeOperands, RawBuffer, SmallFloat};

use crate::kernels::conv::{read_run, store_run};
use crate::kernels::shared::block::{BLOCK, base};
use crate::kernels::shared::number::{Float, Stored, with_float};
use crate::kernels::shared::parallel::{Parallel, SendPtr, parallel_for};

/// # Safety
///
/// As for [`execute`](crate::kernels::execute); the axes are those of the operands.
pub(super) unsafe fn dequantize(
    axes: &[PackedAxis],
    operands: &QuantizeOperands<'_, RawBuffer>,
    parallel: &dyn Parallel,
) {
    let (dst, src, count) = (operands.dst, operands.src, operands.src.layout.elements());
    with_float!(dst.layout.dtype(), T => {
        let table = Numbers::<<T as Stored>::Compute>::of(src);
        let shared = SharedBy { table: &table, operands };
        // SAFETY: passed on.
        let to = SendPtr::new(unsafe { base::<T>(dst) });
        parallel_for(parallel, count.div_ceil(BLOCK), BLOCK, |range| {
            for start in range.map(|block| block * BLOCK) {
                let mut numbers = [<<T as Stored>::Compute as Float>::ZERO; BLOCK];
                let numbers = &mut numbers[..BLOCK.min(count - start)];
                for (at, number) in numbers.iter_mut().enumerate() {
                    // SAFETY: there are so many.
                    *number = unsafe { table.at(src, start + at) };
                }
                each_run(axes, start, numbers.len(), |run| {
                    let numbers = &mut numbers[run.first..][..run.count];
                    // SAFETY: passed on.
                    unsafe {
                        shared.each(&run, numbers, |number, scale, zero| {
                            *number = (*number - zero) * scale;
                        });
                    }
                    // SAFETY: blocks are disjoint parts of the output.
                    unsafe {
                        store_run::<T>(to.get().add(run.positions[0]), run.strides[0], numbers);
                    }
                });
            }
        });
    });
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute); the axes are those of the operands.
pub(super) unsafe fn quantize(
    axes: &[PackedAxis],
    operands: &QuantizeOperands<'_, RawBuffer>,
    parallel: &dyn Parallel,
) {
    let (dst, src, count) = (operands.dst, operands.src, operands.dst.layout.elements());
    let stored = dst.layout.dtype();
    let to = SendPtr::new((dst.buffer.address + dst.layout.start_bytes()) as *mut u8);
    with_float!(src.layout.dtype(), T => {
        let table = Numbers::<<T as Stored>::Compute>::of(dst);
        let shared = SharedBy { table: &table, operands };
        // SAFETY: passed on.
        let from = SendPtr::new(unsafe { base::<T>(src) });
        parallel_for(parallel, count.div_ceil(BLOCK), BLOCK, |range| {
            for start in range.map(|block| block * BLOCK) {
                let mut values = [<<T as Stored>::Compute as Float>::ZERO; BLOCK];
                let values = &mut values[..BLOCK.min(count - start)];
                each_run(axes, start, values.len(), |run| {
                    let values = &mut values[run.first..][..run.count];
                    // SAFETY: passed on; the run lies inside the input.
                    unsafe {
                        read_run::<T>(from.get().add(run.positions[0]), run.strides[0], values);
                        shared.each(&run, values, |value, scale, zero| {
                            *value = scaled(stored, *value / scale, zero);
                        });
                    }
                });
                let code = |value: <T as Stored>::Compute| code(stored, value.to_f64());
                for (at, pair) in values.chunks(2).enumerate() {
                    let high = pair.get(1).map_or(0, |&value| code(value));
                    // SAFETY: blocks begin with a byte, and are disjoint parts of the output.
                    unsafe { to.get().add(start / 2 + at).write(code(pair[0]) | high << 4) };
                }
            }
        });
    });
}

/// A quotient with its zero point. An integer type is rounded before, and what is no number is then its zero point.
#[inline(always)]
fn scaled<F: Float>(stored: DType, quotient: F, zero: F) -> F {
    if stored == DType::F4E2M1 {
        return quotient + zero;
    }
    let rounded = quotient.round_ties_even();
    if rounded.is_nan() { zero } else { rounded + zero }
}

/// The bits of a number, saturated.
fn code(stored: DType, value: f64) -> u8 {
    match SmallFloat::of(stored) {
        Some(format) => format.bits_of(value as f32, true),
        None if stored == DType::I4 => (value as i8).clamp(-8, 7) as u8 & 15,
        None => (value as u8).min(15),
    }
}

/// What the bits of a type of 4 bits stand for.
struct Numbers<F>([F; 16]);

impl<F: Float> Numbers<F> {
    fn of(operand: &Operand<RawBuffer>) -> Self {
        let stored = operand.layout.dtype();
        Self(std::array::from_fn(|bits| match SmallFloat::of(stored) {
            Some(format) => F::from_f32(format.value_of(bits as u8)),
            None if stored == DType::I4 && bits >= 8 => F::from_f32(bits as f32 - 16.0),
            None => F::from_f32(bits as f32),
        }))
    }

    /// # Safety
    ///
    /// The operand has so many elements, which nobody writes.
    #[inline(always)]
    unsafe fn at(&self, operand: &Operand<RawBuffer>, element: usize) -> F {
        let place = operand.layout.offset() + element;
        let bytes = operand.buffer.address as *const u8;
        // SAFETY: passed on.
        let byte = unsafe { bytes.add(place / 2).read() };
        self.0[usize::from(byte >> (4 * (place % 2)) & 15)]
    }
}

/// Scales and zero points.
struct SharedBy<'a, F> {
    table: &'a Numbers<F>,
    operands: &'a QuantizeOperands<'a, RawBuffer>,
}

impl<F: Float> SharedBy<'_, F> {
    /// Visits the numbers of a run with their scale and zero point.
    ///
    /// # Safety
    ///
    /// The run is one of the operands, which nobody writes.
    #[inline(always)]
    unsafe fn each(&self, run: &Run, numbers: &mut [F], body: impl Fn(&mut F, F, F)) {
        // SAFETY: passed on.
        let (scale, zero) = unsafe { (self.scale(run, 0), self.zero(run, 0)) };
        if run.strides[1] == 0 && run.strides[2] == 0 {
            return numbers.iter_mut().for_each(|number| body(number, scale, zero));
        }
        for (index, number) in numbers.iter_mut().enumerate() {
            // SAFETY: passed on.
            unsafe { body(number, self.scale(run, index), self.zero(run, index)) };
        }
    }

    #[inline(always)]
    unsafe fn scale(&self, run: &Run, index: usize) -> F {
        let (scale, at) = (self.operands.scale, run.positions[1] + index * run.strides[1]);
        // SAFETY: passed on; the type is that of the operand.
        F::from_f32(unsafe {
            match scale.layout.dtype() {
                DType::F32 => base::<f32>(scale).add(at).read(),
                DType::F16 => base::<half::f16>(scale).add(at).read().widen(),
                _ => base::<half::bf16>(scale).add(at).read().widen(),
            }
        })
    }

    #[inline(always)]
    unsafe fn zero(&self, run: &Run, index: usize) -> F {
        let at = run.positions[2] + index * run.strides[2];
        // SAFETY: passed on.
        self.operands.zero.map_or(F::ZERO, |zero| unsafe { self.table.at(zero, at) })
    }
}

/// Neighbors along the last axis, with scales that have one distance.
struct Run {
    /// The first of a block.
    first: usize,
    count: usize,
    positions: [usize; 3],
    strides: [usize; 3],
}

/// Visits the elements `start .. start + len` as runs.
fn each_run(axes: &[PackedAxis], start: usize, len: usize, mut body: impl FnMut(Run)) {
    let Some((last, outer)) = axes.split_last() else { return };
    let mut first = 0;
    while first < len {
        let (mut rest, place) = ((start + first) / last.size, (start + first) % last.size);
        let mut positions = [0; 3];
        last.advance(place, &mut positions);
        for axis in outer.iter().rev() {
            axis.advance(rest % axis.size, &mut positions);
            rest /= axis.size;
        }
        let (mut count, mut strides) = ((last.size - place).min(len - first), last.strides);
        if last.block > 1 {
            count = count.min(last.block - place % last.block);
            strides = [strides[0], 0, 0];
        }
        body(Run { first, count, positions, strides });
        first += count;
    }
}

#[cfg(test)]
mod tests;

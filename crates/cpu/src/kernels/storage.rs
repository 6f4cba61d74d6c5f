//! Copies of types that are only stored, and conversions to and from them.

use millstream_core::{DType, Operand, RawBuffer, SmallFloat};

use crate::kernels::copy::{self, Cast, each};
use crate::kernels::shared::block::{BLOCK, Input, Output, Scratch, base};
use crate::kernels::shared::number::{Stored, with_f32, with_int};
use crate::kernels::shared::parallel::{Parallel, Shared, share};
use crate::kernels::shared::span::Whole;
use crate::kernels::shared::walk::Walk;

/// Copies where one of the types is only stored.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn copy(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    saturate: bool,
    parallel: &dyn Parallel,
) {
    let (to, from) = (dst.layout.dtype(), src.layout.dtype());
    // SAFETY: passed on; the types are those of the operands, and bytes lie where the elements do.
    unsafe {
        if to == from {
            return copy::copy(&bytes(dst), &bytes(src), parallel);
        }
        let (stored, other) = if to.is_storage() { (to, from) } else { (from, to) };
        let format = SmallFloat::of(stored);
        match (format, to.is_storage(), stored.per_byte()) {
            (Some(format), true, 1) => with_f32!(other, T => {
                let bits = |value| format.bits_of(value, saturate);
                each::<T, u8>(Whole { dst: &bytes(dst), inputs: [src], parallel }, bits);
            }),
            (Some(format), false, 1) => with_f32!(other, T => {
                let table: [f32; 256] = std::array::from_fn(|bits| format.value_of(bits as u8));
                let number = |bits: u8| table[usize::from(bits)];
                each::<u8, T>(Whole { dst, inputs: [&bytes(src)], parallel }, number);
            }),
            (Some(format), true, _) => with_f32!(other, T => {
                pack::<T>(dst, src, parallel, |value| format.bits_of(value, saturate));
            }),
            (Some(format), false, _) => with_f32!(other, T => {
                unpack::<T>(dst, src, parallel, std::array::from_fn(|bits| format.value_of(bits as u8)));
            }),
            (None, true, _) if other.is_float() => with_f32!(other, T => {
                pack::<T>(dst, src, parallel, |value: f32| value.to_i32() as u8);
            }),
            (None, false, _) if other.is_float() => with_f32!(other, T => {
                unpack::<T>(dst, src, parallel, std::array::from_fn(|bits| number(stored, bits).into()));
            }),
            (None, true, _) => with_int!(other, T => pack::<T>(dst, src, parallel, Cast::to_u8)),
            (None, false, _) => with_int!(other, T => {
                unpack::<T>(dst, src, parallel, std::array::from_fn(|bits| number(stored, bits) as T));
            }),
        }
    }
}

fn bytes(operand: &Operand<RawBuffer>) -> Operand<RawBuffer> {
    Operand::new(operand.buffer, operand.layout.storage_bytes())
}

/// A 4-bit integer.
fn number(dtype: DType, bits: usize) -> i8 {
    let signed = dtype == DType::I4 && bits >= 8;
    if signed { bits as i8 - 16 } else { bits as i8 }
}

/// Two elements to a byte, the first in the low bits. A byte of one element has zeros above it.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the input has the type `T`.
unsafe fn pack<T: Stored>(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    bits: impl Fn(T::Compute) -> u8 + Sync,
) {
    let walk = Walk::in_order([&src.layout]);
    let count = walk.elements();
    // SAFETY: passed on.
    let (to, from) = unsafe { (base::<u8>(&bytes(dst)), base::<T>(src)) };
    let (input, to) = (Input::new(from, 0, to), Shared::new(to));
    share(parallel, count.div_ceil(BLOCK), BLOCK, |range| {
        for start in range.map(|block| block * BLOCK) {
            let (len, mut values) = (BLOCK.min(count - start), Scratch::new());
            // SAFETY: blocks are disjoint, begin with a byte, and lie inside their operands.
            unsafe {
                let values = input.read(&walk, start, len, &mut values);
                for (at, pair) in values.chunks(2).enumerate() {
                    let low = bits(pair[0]) & 15;
                    let high = pair.get(1).map_or(0, |&value| bits(value) & 15);
                    to.get().add(start / 2 + at).write(low | high << 4);
                }
            }
        }
    });
}

/// Elements of bytes that have two each, by a table.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the output has the type `T`.
unsafe fn unpack<T: Stored>(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    table: [T::Compute; 16],
) {
    let walk = Walk::in_order([&dst.layout]);
    let count = walk.elements();
    // SAFETY: passed on.
    let (to, from) = unsafe { (base::<T>(dst), base::<u8>(&bytes(src))) };
    let (output, from) = (Output::new(to, 0), Shared::new(from));
    share(parallel, count.div_ceil(BLOCK), BLOCK, |range| {
        for start in range.map(|block| block * BLOCK) {
            let (len, mut results) = (BLOCK.min(count - start), Scratch::new());
            // SAFETY: blocks are disjoint parts of the output and all of a block is written; the bytes have
            // as many elements.
            unsafe {
                output.write(&walk, start, len, &mut results, |block| {
                    for (at, to) in block.iter_mut().enumerate() {
                        let byte = from.get().add((start + at) / 2).read();
                        to.write(table[usize::from(byte >> (4 * (at % 2)) & 15)]);
                    }
                });
            }
        }
    });
}

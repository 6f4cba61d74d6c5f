//! Copies of types that are only stored (8-bit and 4-bit floats, 4-bit integers), and conversions to and from them.

use millstream_core::{DType, Operand, RawBuffer, SmallFloat};

use crate::kernels::copy;
use crate::kernels::shared::block::{BLOCK, BlockBuffer, base, each_block};
use crate::kernels::shared::operand::{Computed, Input, Output};
use crate::kernels::shared::parallel::{Parallel, SendPtr, parallel_for};
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
            (Some(format), true, 1) => {
                each::<f32, u8>(&bytes(dst), src, parallel, |x| format.bits_of(x, saturate));
            }
            (Some(format), false, 1) => {
                let table: [f32; 256] = std::array::from_fn(|bits| format.value_of(bits as u8));
                each::<u8, f32>(dst, &bytes(src), parallel, |bits| table[usize::from(bits)]);
            }
            (Some(format), true, _) => {
                pack::<f32>(dst, src, parallel, |value| format.bits_of(value, saturate));
            }
            (Some(format), false, _) => {
                let table = std::array::from_fn(|bits| format.value_of(bits as u8));
                unpack::<f32>(dst, src, parallel, table);
            }
            (None, true, _) if other.is_float() => {
                pack::<f32>(dst, src, parallel, |value| value as i32 as u8);
            }
            (None, false, _) if other.is_float() => {
                let table = std::array::from_fn(|bits| number(stored, bits).into());
                unpack::<f32>(dst, src, parallel, table);
            }
            // The last bits of wide integers are those of narrow ones.
            (None, true, _) => pack::<i64>(dst, src, parallel, |value| value as u8),
            (None, false, _) => {
                let table = std::array::from_fn(|bits| number(stored, bits).into());
                unpack::<i64>(dst, src, parallel, table);
            }
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

/// A function of each element.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the operands are computed in these types.
unsafe fn each<S: Computed, D: Computed>(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    function: impl Fn(S) -> D + Sync,
) {
    let walk = Walk::in_any_order([&dst.layout, &src.layout]);
    // SAFETY: passed on.
    let (output, input) = unsafe {
        let output = Output::<D>::new(dst, 0).of_elements(walk.elements());
        (output, Input::<S>::new(src, 1, dst))
    };
    each_block(&walk, parallel, &|start, len| {
        let (mut values, mut results) = (BlockBuffer::new(), BlockBuffer::new());
        // SAFETY: blocks are disjoint parts of the output, and all of a block is written.
        unsafe {
            let values = input.read(&walk, start, len, &mut values);
            output.write(&walk, start, len, &mut results, |block| {
                for (to, &value) in block.iter_mut().zip(values) {
                    to.write(function(value));
                }
            });
        }
    });
}

/// Two elements to a byte, the first in the low bits. A byte of one element has zeros above it.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute), and the input is computed in this type.
unsafe fn pack<C: Computed>(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    bits: impl Fn(C) -> u8 + Sync,
) {
    let walk = Walk::in_order([&src.layout]);
    let count = walk.elements();
    // SAFETY: passed on.
    let (to, input) =
        unsafe { (SendPtr::new(base::<u8>(&bytes(dst))), Input::<C>::new(src, 0, &bytes(dst))) };
    parallel_for(parallel, count.div_ceil(BLOCK), BLOCK, |range| {
        for start in range.map(|block| block * BLOCK) {
            let (len, mut values) = (BLOCK.min(count - start), BlockBuffer::new());
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
/// As for [`execute`](crate::kernels::execute), and the output is computed in this type.
unsafe fn unpack<C: Computed>(
    dst: &Operand<RawBuffer>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
    table: [C; 16],
) {
    let walk = Walk::in_order([&dst.layout]);
    let count = walk.elements();
    // SAFETY: passed on.
    let (output, from) =
        unsafe { (Output::<C>::new(dst, 0), SendPtr::new(base::<u8>(&bytes(src)))) };
    parallel_for(parallel, count.div_ceil(BLOCK), BLOCK, |range| {
        for start in range.map(|block| block * BLOCK) {
            let (len, mut results) = (BLOCK.min(count - start), BlockBuffer::new());
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

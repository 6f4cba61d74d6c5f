//! Both operands as numbers, in the order in which weights are taken out of bytes.

use std::mem::MaybeUninit;
use std::ops::Range;

use millstream_core::{Operand, RawBuffer};

use super::{K_PART, Operands};
use crate::kernels::matmul::problem::Matrix;
use crate::kernels::shared::block::base;
use crate::kernels::shared::number::Stored;
use crate::kernels::shared::parallel::Shared;
use crate::kernels::shared::simd::{SimdFn, vectorized};

/// The smallest block of weights.
const LEAST_BLOCK: usize = 16;

/// Numbers with two indices in memory.
#[derive(Clone, Copy)]
struct Table<T> {
    first: Shared<T>,
    strides: [usize; 2],
}

impl<T: Copy> Table<T> {
    unsafe fn of(operand: &Operand<RawBuffer>) -> Self {
        let strides = operand.layout.strides();
        // SAFETY: passed on.
        Table { first: Shared::new(unsafe { base(operand) }), strides: [strides[0], strides[1]] }
    }

    unsafe fn at(&self, row: usize, column: usize) -> T {
        // SAFETY: passed on.
        unsafe { self.first.get().add(row * self.strides[0] + column * self.strides[1]).read() }
    }
}

/// Where zero points come from.
#[derive(Clone, Copy)]
enum Zeros<T> {
    /// The middle of the range.
    Middle,
    /// Packed as weights are.
    Packed(Table<u8>),
    Numbers(Table<T>),
}

/// Columns of weights in blocks.
#[derive(Clone, Copy)]
pub(super) struct Weights<T> {
    first: Shared<u8>,
    scales: Table<T>,
    zeros: Zeros<T>,
    bits: usize,
    /// Weights of a block.
    size: usize,
    /// Blocks of a column.
    blocks: usize,
}

impl<T: Stored<Compute = f32>> Weights<T> {
    /// # Safety
    ///
    /// As for [`execute`](crate::kernels::execute), with scales of type `T`.
    pub unsafe fn new(bits: u8, size: usize, operands: &Operands<'_>) -> Self {
        // SAFETY: passed on.
        unsafe {
            Weights {
                first: Shared::new(base(operands.weights)),
                scales: Table::of(operands.scales),
                zeros: match operands.zeros {
                    None => Zeros::Middle,
                    Some(zeros) if zeros.layout.dtype() == millstream_core::DType::U8 => {
                        Zeros::Packed(Table::of(zeros))
                    }
                    Some(zeros) => Zeros::Numbers(Table::of(zeros)),
                },
                bits: usize::from(bits),
                size,
                blocks: operands.weights.layout.shape()[1],
            }
        }
    }

    /// Weights of a block.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Weights in a byte.
    fn per_byte(&self) -> usize {
        8 / self.bits
    }

    /// The zero point of a block.
    unsafe fn zero(&self, column: usize, block: usize) -> f32 {
        // SAFETY: passed on.
        unsafe {
            match &self.zeros {
                Zeros::Middle => (1u32 << (self.bits - 1)) as f32,
                Zeros::Packed(table) => {
                    let byte = table.at(column, block / self.per_byte());
                    let shift = block % self.per_byte() * self.bits;
                    f32::from(byte >> shift & (0xff >> (8 - self.bits)))
                }
                Zeros::Numbers(table) => table.at(column, block).widen(),
            }
        }
    }

    /// Weights of a column as numbers, whole blocks from an element on.
    ///
    /// # Safety
    ///
    /// The column and the blocks are of the weights, and at most [`K_PART`] elements.
    pub unsafe fn column(&self, column: usize, begin: usize, to: &mut [f32]) {
        let (first, count) = (begin / self.size, to.len() / self.size);
        let (mut scales, mut zeros) = ([0.0; K_PART / LEAST_BLOCK], [0.0; K_PART / LEAST_BLOCK]);
        let bytes = self.size / self.per_byte();
        // SAFETY: passed on.
        let weights = unsafe {
            for block in 0..count {
                scales[block] = self.scales.at(column, first + block).widen();
                zeros[block] = self.zero(column, first + block);
            }
            let start = (column * self.blocks + first) * bytes;
            std::slice::from_raw_parts(self.first.get().add(start), count * bytes)
        };
        let (scales, zeros) = (&scales[..count], &zeros[..count]);
        match self.bits {
            2 => vectorized(Unpack::<2> { weights, bytes, scales, zeros, to }),
            4 => vectorized(Unpack::<4> { weights, bytes, scales, zeros, to }),
            _ => vectorized(Unpack::<8> { weights, bytes, scales, zeros, to }),
        }
    }
}

struct Unpack<'a, const BITS: usize> {
    weights: &'a [u8],
    /// Bytes of a block.
    bytes: usize,
    scales: &'a [f32],
    zeros: &'a [f32],
    to: &'a mut [f32],
}

impl<const BITS: usize> SimdFn for Unpack<'_, BITS> {
    #[inline(always)]
    fn run(self) {
        let mask = 0xffu8 >> (8 - BITS);
        let blocks = self.weights.chunks_exact(self.bytes).zip(self.scales).zip(self.zeros);
        let mut to = self.to;
        for ((weights, &scale), &zero) in blocks {
            for part in 0..8 / BITS {
                let (now, rest) = to.split_at_mut(self.bytes);
                to = rest;
                for (to, &byte) in now.iter_mut().zip(weights) {
                    *to = (f32::from(byte >> (part * BITS) & mask) - zero) * scale;
                }
            }
        }
    }
}

/// A part of some rows as numbers, in the order of the weights; zeros behind k.
///
/// # Safety
///
/// The rows belong to the matrix, whose rows have `k` elements; the part begins there and is at most
/// [`K_PART`] long, and `to` has room for it.
pub(super) unsafe fn take_rows<T: Stored<Compute = f32>>(
    from: &Matrix<T>,
    weights: &Weights<T>,
    part: Range<usize>,
    (rows, k): (usize, usize),
    to: &mut [f32],
) {
    let there = part.end.min(k) - part.start;
    for (row, to) in to.chunks_exact_mut(part.len()).take(rows).enumerate() {
        let mut wide = [MaybeUninit::new(0.0); K_PART];
        let wide = &mut wide[..part.len()];
        // SAFETY: passed on.
        unsafe {
            let first = from.at(row, part.start).cast_const();
            match from.column_stride() {
                1 => {
                    let run = std::slice::from_raw_parts(first, there);
                    T::widen_run(run, &mut wide[..there]);
                }
                stride => {
                    for (i, to) in wide[..there].iter_mut().enumerate() {
                        to.write(first.add(i * stride).read().widen());
                    }
                }
            }
            let (from, block) = (wide.assume_init_ref(), weights.size);
            match weights.bits {
                2 => vectorized(Order::<4> { from, block, to }),
                4 => vectorized(Order::<2> { from, block, to }),
                _ => to.copy_from_slice(from),
            }
        }
    }
}

/// Brings neighbors that a byte holds apart.
struct Order<'a, const PARTS: usize> {
    from: &'a [f32],
    block: usize,
    to: &'a mut [f32],
}

impl<const PARTS: usize> SimdFn for Order<'_, PARTS> {
    #[inline(always)]
    fn run(self) {
        let blocks = self.from.chunks_exact(self.block).zip(self.to.chunks_exact_mut(self.block));
        for (from, to) in blocks {
            let (groups, _) = from.as_chunks::<PARTS>();
            for (part, to) in to.chunks_exact_mut(self.block / PARTS).enumerate() {
                for (to, group) in to.iter_mut().zip(groups) {
                    *to = group[part];
                }
            }
        }
    }
}

//! Dynamic quantization: conversion to integers with the scale that suits the data.
//!
//! The data are read twice: for their range, and to convert them. Chunks of a tensor add to its range in any order,
//! since the smallest and the largest number do not depend on it.

use std::sync::atomic::{AtomicU32, Ordering};

use millstream_core::{DType, DynamicAxes, DynamicQuantizeOperands, DynamicRange, RawBuffer};

use crate::kernels::shared::block::{BLOCK, BlockBuffer, base, each_block};
use crate::kernels::shared::byte::{Byte, ToBytes};
use crate::kernels::shared::operand::{Computed, Input, Output};
use crate::kernels::shared::parallel::{Parallel, SendPtr, parallel_for};
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::walk::Walk;

/// Elements whose range is kept side by side.
const LANES: usize = 32;

/// The type of the integers.
trait Target: Byte + Computed {
    /// Whether the range is symmetric about 0, so that there is no zero point.
    const SYMMETRIC: bool;
}

impl Target for u8 {
    const SYMMETRIC: bool = false;
}

impl Target for i8 {
    const SYMMETRIC: bool = true;
}

/// The range of some numbers and 0: the smallest, negated, and the largest. Neither is negative.
#[derive(Clone, Copy)]
struct MinMax {
    neg_min: f32,
    max: f32,
}

impl MinMax {
    const NONE: Self = MinMax { neg_min: 0.0, max: 0.0 };

    #[inline(always)]
    fn join(self, other: Self) -> Self {
        MinMax { neg_min: larger(self.neg_min, other.neg_min), max: larger(self.max, other.max) }
    }

    /// The scale, and the zero point as a number.
    fn parameters<Q: Target>(self) -> (f32, f32) {
        let MinMax { neg_min, max } = self;
        let scale = match Q::SYMMETRIC {
            true => larger(neg_min, max) / Q::HIGH,
            false => (max + neg_min) / Q::HIGH,
        };
        // Also where numbers are so small that the quotient is 0.
        let scale = if scale == 0.0 { 1.0 } else { scale };
        let zero = (neg_min / scale).round_ties_even();
        (scale, if Q::SYMMETRIC || zero.is_nan() { 0.0 } else { zero.min(Q::HIGH) })
    }
}

/// The larger of two numbers of which the second may be NaN, which does not count.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// The range that the chunks of a tensor have so far.
struct SharedMinMax {
    neg_min: AtomicU32,
    max: AtomicU32,
}

impl SharedMinMax {
    /// Numbers that are not negative are ordered as their bits are.
    fn add(&self, min_max: MinMax) {
        self.neg_min.fetch_max(min_max.neg_min.to_bits(), Ordering::Relaxed);
        self.max.fetch_max(min_max.max.to_bits(), Ordering::Relaxed);
    }

    fn into_inner(self) -> MinMax {
        let [neg_min, max] = [self.neg_min, self.max].map(|bits| f32::from_bits(bits.into_inner()));
        MinMax { neg_min, max }
    }
}

/// Where so few ranges are computed, threads share the elements of each, else the ranges.
const FEW_RANGES: usize = 8;

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn quantize(
    range: DynamicRange,
    operands: &DynamicQuantizeOperands<'_, RawBuffer>,
    parallel: &dyn Parallel,
) {
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        match operands.dst.layout.dtype() {
            DType::U8 => run::<u8>(range, operands, parallel),
            DType::I8 => run::<i8>(range, operands, parallel),
            other => unreachable!("no conversion to {other} has a scale of its own"),
        }
    }
}

unsafe fn run<Q: Target>(
    range: DynamicRange,
    operands: &DynamicQuantizeOperands<'_, RawBuffer>,
    parallel: &dyn Parallel,
) {
    let &DynamicQuantizeOperands { dst, scale, zero, src } = operands;
    // SAFETY: passed on.
    let (output, input, scales, zeros) = unsafe {
        let zeros = zero.map(|zero| SendPtr::new(base::<Q>(zero)));
        let (output, input) = (Output::<Q>::new(dst, 0), Input::<f32>::new(src, 1, dst));
        (output, input, SendPtr::new(base::<f32>(scale)), zeros)
    };
    // SAFETY: called once for each scale there is, with its place and that of its zero point.
    let note = |at: usize, zero_at: usize, (scale, zero): (f32, f32)| unsafe {
        scales.get().add(at).write(scale);
        if let Some(zeros) = zeros {
            zeros.get().add(zero_at).write(Q::of(zero as i32));
        }
    };
    let DynamicAxes { scales: starts, mut elements } = operands.axes(range);
    // Neighbors in the memory that is written come one after another.
    elements.sort_by_key(|(_, strides)| std::cmp::Reverse(strides[0]));
    let (starts, walk) =
        (Walk::<4>::from_axes(starts.into_iter()), Walk::<2>::from_axes(elements.into_iter()));
    // What shares a scale, by its number. Without elements it has no place, and is not read or written.
    let moved = |index: usize| match walk.elements() {
        0 => (input, output),
        // SAFETY: the first of its elements.
        _ => unsafe {
            (input.moved(starts.position(1, index)), output.moved(starts.position(0, index)))
        },
    };
    let note = |index: usize, parameters: (f32, f32)| {
        note(starts.position(2, index), starts.position(3, index), parameters);
    };
    if starts.elements() < FEW_RANGES {
        for index in 0..starts.elements() {
            let (input, output) = moved(index);
            let shared = SharedMinMax { neg_min: AtomicU32::new(0), max: AtomicU32::new(0) };
            parallel_for(parallel, walk.elements(), 1, |range| {
                // SAFETY: passed on.
                shared.add(unsafe { min_max(&input, &walk, range.start, range.len()) });
            });
            let parameters = shared.into_inner().parameters::<Q>();
            note(index, parameters);
            each_block(&walk, parallel, &|start, len| {
                // SAFETY: blocks are disjoint; the rest is passed on.
                unsafe { convert(&output, &input, &walk, (start, len), parameters) };
            });
        }
        return;
    }
    // Without elements there is a scale all the same.
    parallel_for(parallel, starts.elements(), walk.elements() + 1, |range| {
        for index in range {
            let (input, output) = moved(index);
            // SAFETY: what shares a scale shares no element with the rest, which others convert.
            unsafe {
                let parameters = min_max(&input, &walk, 0, walk.elements()).parameters::<Q>();
                note(index, parameters);
                walk.blocks(0..walk.elements(), BLOCK, |start, len| {
                    convert(&output, &input, &walk, (start, len), parameters);
                });
            }
        }
    });
}

/// The range of some elements of an input.
unsafe fn min_max(input: &Input<f32>, walk: &Walk<2>, start: usize, len: usize) -> MinMax {
    let mut min_max = MinMax::NONE;
    walk.blocks(start..start + len, BLOCK, |start, len| {
        let mut scratch = BlockBuffer::new();
        // SAFETY: passed on.
        let values = unsafe { input.read(walk, start, len, &mut scratch) };
        vectorized(MinMaxOf { values, min_max: &mut min_max });
    });
    min_max
}

unsafe fn convert<Q: Target>(
    output: &Output<Q>,
    input: &Input<f32>,
    walk: &Walk<2>,
    (start, len): (usize, usize),
    (scale, zero): (f32, f32),
) {
    let (mut scratch, mut results) = (BlockBuffer::new(), BlockBuffer::new());
    // SAFETY: passed on; the loop writes all of its block.
    unsafe {
        let values = input.read(walk, start, len, &mut scratch);
        output.write(walk, start, len, &mut results, |to| {
            vectorized(ToBytes { values, scale, zero, to });
        });
    }
}

struct MinMaxOf<'a> {
    values: &'a [f32],
    min_max: &'a mut MinMax,
}

impl SimdFn for MinMaxOf<'_> {
    #[inline(always)]
    fn run(self) {
        let (mut neg_min, mut max) = ([0.0; LANES], [0.0; LANES]);
        let (groups, rest) = self.values.as_chunks::<LANES>();
        for group in groups {
            for lane in 0..LANES {
                max[lane] = larger(max[lane], group[lane]);
                neg_min[lane] = larger(neg_min[lane], -group[lane]);
            }
        }
        for (lane, &value) in rest.iter().enumerate() {
            max[lane] = larger(max[lane], value);
            neg_min[lane] = larger(neg_min[lane], -value);
        }
        for (neg_min, max) in neg_min.into_iter().zip(max) {
            *self.min_max = self.min_max.join(MinMax { neg_min, max });
        }
    }
}

#[cfg(test)]
mod tests;

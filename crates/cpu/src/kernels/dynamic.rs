//! Conversion to integers with the scale that suits the data.
//!
//! The data are gone through twice: for their range, and to convert them. The range of a tensor is joined
//! from chunks in any order, since the smaller and the larger of numbers do not depend on it.

use std::sync::atomic::{AtomicU32, Ordering};

use millstream_core::{DType, Operand, RawBuffer};

use crate::kernels::shared::block::{Input, Output, Scratch, base, each_block};
use crate::kernels::shared::byte::{Byte, ToBytes};
use crate::kernels::shared::number::Stored;
use crate::kernels::shared::parallel::{Parallel, Shared, share};
use crate::kernels::shared::simd::{SimdFn, vectorized};
use crate::kernels::shared::walk::Walk;

/// Elements whose range is kept side by side.
const LANES: usize = 32;

/// The type of the integers.
trait Target: Byte {
    /// Whether the range is symmetric about 0, so that there is no zero point.
    const SYMMETRIC: bool;
}

impl Target for u8 {
    const SYMMETRIC: bool = false;
}

impl Target for i8 {
    const SYMMETRIC: bool = true;
}

/// How far numbers reach below 0 and above it, both as numbers that are not negative.
#[derive(Clone, Copy)]
struct Reach {
    below: f32,
    above: f32,
}

impl Reach {
    const NONE: Self = Reach { below: 0.0, above: 0.0 };

    #[inline(always)]
    fn join(self, other: Self) -> Self {
        Reach { below: larger(self.below, other.below), above: larger(self.above, other.above) }
    }

    /// The scale, and the zero point as a number.
    fn parameters<Q: Target>(self) -> (f32, f32) {
        let Reach { below, above } = self;
        let scale = match Q::SYMMETRIC {
            true => larger(below, above) / Q::HIGH,
            false => (above + below) / Q::HIGH,
        };
        // Also where numbers are so small that the quotient is 0.
        let scale = if scale == 0.0 { 1.0 } else { scale };
        let zero = (below / scale).round_ties_even();
        (scale, if Q::SYMMETRIC || zero.is_nan() { 0.0 } else { zero.min(Q::HIGH) })
    }
}

/// The larger of two numbers of which the second may be NaN, which does not count.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// The reach that chunks of a tensor join.
struct Joined {
    below: AtomicU32,
    above: AtomicU32,
}

impl Joined {
    /// Numbers that are not negative are ordered as their bits are.
    fn add(&self, reach: Reach) {
        self.below.fetch_max(reach.below.to_bits(), Ordering::Relaxed);
        self.above.fetch_max(reach.above.to_bits(), Ordering::Relaxed);
    }
}

/// # Safety
///
/// As for [`execute`](crate::kernels::execute).
pub(super) unsafe fn quantize(
    rows: bool,
    dst: &Operand<RawBuffer>,
    scale: &Operand<RawBuffer>,
    zero: Option<&Operand<RawBuffer>>,
    src: &Operand<RawBuffer>,
    parallel: &dyn Parallel,
) {
    let operands = Operands { rows, dst, scale, zero, src };
    // SAFETY: passed on; the types are those of the operands.
    unsafe {
        match (dst.layout.dtype(), src.layout.dtype()) {
            (DType::U8, DType::F32) => run::<u8, f32>(&operands, parallel),
            (DType::U8, DType::F16) => run::<u8, half::f16>(&operands, parallel),
            (DType::U8, DType::BF16) => run::<u8, half::bf16>(&operands, parallel),
            (DType::I8, DType::F32) => run::<i8, f32>(&operands, parallel),
            (DType::I8, DType::F16) => run::<i8, half::f16>(&operands, parallel),
            (DType::I8, DType::BF16) => run::<i8, half::bf16>(&operands, parallel),
            (to, from) => unreachable!("no conversion from {from} to {to} has a scale of its own"),
        }
    }
}

struct Operands<'a> {
    rows: bool,
    dst: &'a Operand<RawBuffer>,
    scale: &'a Operand<RawBuffer>,
    zero: Option<&'a Operand<RawBuffer>>,
    src: &'a Operand<RawBuffer>,
}

unsafe fn run<Q: Target, T: Stored<Compute = f32>>(
    operands: &Operands<'_>,
    parallel: &dyn Parallel,
) {
    let &Operands { rows, dst, scale, zero, src } = operands;
    // SAFETY: passed on.
    let (to, from, scales, zeros) = unsafe {
        let zeros = zero.map(|zero| Shared::new(base::<Q>(zero)));
        (base::<Q>(dst), base::<T>(src), Shared::new(base::<f32>(scale)), zeros)
    };
    let (output, input) = (Output::new(to, 0), Input::new(from, 1, to));
    // SAFETY: called once for each scale there is, with its place and that of its zero point.
    let note = |at: usize, zero_at: usize, (scale, zero): (f32, f32)| unsafe {
        scales.get().add(at).write(scale);
        if let Some(zeros) = zeros {
            zeros.get().add(zero_at).write(Q::of(zero as i32));
        }
    };
    let layouts = [&dst.layout, &src.layout];
    if !rows || scale.layout.elements() == 1 {
        let walk = Walk::in_any_order(layouts);
        let joined = Joined { below: AtomicU32::new(0), above: AtomicU32::new(0) };
        share(parallel, walk.elements(), 1, |range| {
            // SAFETY: passed on.
            joined.add(unsafe { reach(&input, &walk, range.start, range.len()) });
        });
        let reach = Reach {
            below: f32::from_bits(joined.below.into_inner()),
            above: f32::from_bits(joined.above.into_inner()),
        };
        let parameters = reach.parameters::<Q>();
        note(0, 0, parameters);
        each_block(&walk, parallel, |start, len| {
            // SAFETY: blocks are disjoint; the rest is passed on.
            unsafe { convert(&output, &input, &walk, (start, len), parameters) };
        });
        return;
    }
    let last = src.layout.rank() - 1;
    let row = Walk::over(layouts, [last]);
    let starts = [&dst.layout, &src.layout, &scale.layout, &zero.unwrap_or(scale).layout];
    let starts = Walk::over(starts, 0..last);
    // Rows without elements have a scale all the same.
    share(parallel, starts.elements(), row.elements() + 1, |range| {
        for index in range {
            let at = |operand| starts.position(operand, index);
            // SAFETY: rows are disjoint; one without elements is not read or written.
            unsafe {
                let (input, output) = match row.elements() {
                    0 => (input, output),
                    _ => (input.moved(at(1)), output.moved(at(0))),
                };
                let parameters = reach(&input, &row, 0, row.elements()).parameters::<Q>();
                note(at(2), at(3), parameters);
                row.blocks(
                    0..row.elements(),
                    crate::kernels::shared::block::BLOCK,
                    |start, len| {
                        convert(&output, &input, &row, (start, len), parameters);
                    },
                );
            }
        }
    });
}

/// How far some elements of an input reach.
unsafe fn reach<T: Stored<Compute = f32>>(
    input: &Input<T>,
    walk: &Walk<2>,
    start: usize,
    len: usize,
) -> Reach {
    let mut reach = Reach::NONE;
    walk.blocks(start..start + len, crate::kernels::shared::block::BLOCK, |start, len| {
        let mut scratch = Scratch::new();
        // SAFETY: passed on.
        let values = unsafe { input.read(walk, start, len, &mut scratch) };
        vectorized(Reaches { values, reach: &mut reach });
    });
    reach
}

unsafe fn convert<Q: Target, T: Stored<Compute = f32>>(
    output: &Output<Q>,
    input: &Input<T>,
    walk: &Walk<2>,
    (start, len): (usize, usize),
    (scale, zero): (f32, f32),
) {
    let (mut scratch, mut results) = (Scratch::new(), Scratch::new());
    // SAFETY: passed on; the loop writes all of its block.
    unsafe {
        let values = input.read(walk, start, len, &mut scratch);
        output.write(walk, start, len, &mut results, |to| {
            vectorized(ToBytes { values, scale, zero, to });
        });
    }
}

struct Reaches<'a> {
    values: &'a [f32],
    reach: &'a mut Reach,
}

impl SimdFn for Reaches<'_> {
    #[inline(always)]
    fn run(self) {
        let (mut below, mut above) = ([0.0; LANES], [0.0; LANES]);
        let (groups, rest) = self.values.as_chunks::<LANES>();
        for group in groups {
            for lane in 0..LANES {
                above[lane] = larger(above[lane], group[lane]);
                below[lane] = larger(below[lane], -group[lane]);
            }
        }
        for (lane, &value) in rest.iter().enumerate() {
            above[lane] = larger(above[lane], value);
            below[lane] = larger(below[lane], -value);
        }
        for (below, above) in below.into_iter().zip(above) {
            *self.reach = self.reach.join(Reach { below, above });
        }
    }
}

#[cfg(test)]
mod tests;

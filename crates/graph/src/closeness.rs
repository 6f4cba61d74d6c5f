//! Whether answers are close.
//!
//! A GPU has other kernels for a batch than for a call, which add in another order. So an answer of a batch has other last
//! bits there. It is still the answer to its own call: that of another differs by as much as the numbers themselves.

use half::{bf16, f16};
use millstream_core::DType;

/// How far numbers may be apart, as a share of the largest one.
const WIDE: f64 = 1e-4;
const NARROW: f64 = 2e-2;

/// Whether these are about the same numbers: for floating point within a ten-thousandth of the largest, of 16 bits within a
/// fiftieth. Others have to be equal.
pub fn are_close(dtype: DType, found: &[u8], expected: &[u8]) -> bool {
    match dtype {
        DType::F64 => within(WIDE, found, expected, f64::from_ne_bytes),
        DType::F32 => within(WIDE, found, expected, |bytes| f32::from_ne_bytes(bytes).into()),
        DType::F16 => within(NARROW, found, expected, |bytes| f16::from_ne_bytes(bytes).into()),
        DType::BF16 => within(NARROW, found, expected, |bytes| bf16::from_ne_bytes(bytes).into()),
        _ => found == expected,
    }
}

fn within<const N: usize>(
    share: f64,
    found: &[u8],
    expected: &[u8],
    number: impl Fn([u8; N]) -> f64,
) -> bool {
    if found.len() != expected.len() {
        return false;
    }
    if found == expected {
        return true;
    }
    let (found, expected) = (found.as_chunks::<N>().0, expected.as_chunks::<N>().0);
    let bound = share * largest(expected, &number);
    let is_near = |(found, expected): (&[u8; N], &[u8; N])| {
        let (a, b) = (number(*found), number(*expected));
        found == expected || (a - b).abs() <= bound || (a.is_nan() && b.is_nan())
    };
    found.chunks(BLOCK).zip(expected.chunks(BLOCK)).all(|(found, expected)| {
        let pairs = || found.iter().zip(expected);
        // Nearly always all numbers of a block are near: that is found out without a branch for each.
        let far = |(found, expected): (&[u8; N], &[u8; N])| {
            let apart = (number(*found) - number(*expected)).abs();
            u32::from(apart.is_nan() | (apart > bound))
        };
        pairs().map(far).sum::<u32>() == 0 || pairs().all(is_near)
    })
}

/// Numbers that are looked at together.
const BLOCK: usize = 512;

/// The largest of some numbers, by its size; those that are not finite do not count.
fn largest<const N: usize>(numbers: &[[u8; N]], number: impl Fn([u8; N]) -> f64) -> f64 {
    // Several at a time: each step then waits for none of the others.
    let mut largest = [0f64; 8];
    let (rows, rest) = numbers.as_chunks::<8>();
    let add = |largest: &mut f64, bytes: &[u8; N]| {
        let size = number(*bytes).abs();
        let counts = (size > *largest) & (size < f64::INFINITY);
        *largest = if counts { size } else { *largest };
    };
    for row in rows {
        largest.iter_mut().zip(row).for_each(|(largest, bytes)| add(largest, bytes));
    }
    rest.iter().for_each(|bytes| add(&mut largest[0], bytes));
    largest.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;

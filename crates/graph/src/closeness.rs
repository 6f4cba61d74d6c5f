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
    let (found, expected) = (found.as_chunks::<N>().0, expected.as_chunks::<N>().0);
    let finite = |bytes: &[u8; N]| Some(number(*bytes).abs()).filter(|size| size.is_finite());
    let bound = share * expected.iter().filter_map(finite).fold(0.0, f64::max);
    found.iter().zip(expected).all(|(found, expected)| {
        let (a, b) = (number(*found), number(*expected));
        found == expected || (a - b).abs() <= bound || (a.is_nan() && b.is_nan())
    })
}

#[cfg(test)]
mod tests;

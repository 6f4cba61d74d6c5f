//! Arithmetic on sizes: all that is computed of shapes, strides and bytes.
//!
//! Shapes and strides come from callers and from files, so any number may stand there. A size that does
//! not fit is `None` where somebody decides on it, and the largest number where it is only compared with
//! what there is: it is then larger than everything.

use crate::DType;

/// The most bytes that anything can have: addresses are computed with signed distances.
pub(crate) const MAX_BYTES: usize = isize::MAX as usize;

/// Bytes of that many elements, if memory can have them.
pub(crate) fn bytes(elements: usize, dtype: DType) -> Option<usize> {
    dtype.bytes(elements).filter(|&bytes| bytes <= MAX_BYTES)
}

/// The product of sizes; the largest number where it is above that. Nothing times anything is nothing.
pub(crate) fn product(sizes: &[usize]) -> usize {
    sizes.iter().fold(1, |product: usize, &size| product.saturating_mul(size))
}

/// `start + count * step`, the largest number where it is above that.
pub(crate) fn advance(start: usize, count: usize, step: usize) -> usize {
    start.saturating_add(count.saturating_mul(step))
}

/// `start + count * step`.
pub(crate) fn checked_advance(start: usize, count: usize, step: usize) -> Option<usize> {
    start.checked_add(count.checked_mul(step)?)
}

/// Bytes as people read them.
pub(crate) struct Mib(pub usize);

impl std::fmt::Display for Mib {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / f64::from(1 << 20))
    }
}

#[cfg(test)]
mod tests;

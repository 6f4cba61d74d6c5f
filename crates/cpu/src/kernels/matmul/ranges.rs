//! Ranges of about one size.

use std::ops::Range;

/// Cuts `0..count` in as few parts of at most `most` as possible, of about one size.
#[inline]
pub(crate) fn even_ranges(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = count.div_ceil(most);
    let (size, longer) = (count / parts.max(1), count % parts.max(1));
    // The first few are longer by one.
    let start = move |part: usize| part * size + part.min(longer);
    (0..parts).map(move |part| start(part)..start(part + 1))
}

#[cfg(test)]
mod tests;

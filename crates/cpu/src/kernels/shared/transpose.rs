//! Swaps the two axes of a matrix in memory.

use super::parallel::{Parallel, Shared, share};
use super::simd::Isa;
use super::walk::Walk;

/// A matrix of lines that is read and the columns that it becomes; strides count elements.
#[derive(Clone, Copy)]
pub(crate) struct Transposition<T> {
    /// The first element of the first line.
    pub from: *const T,
    /// Distance between lines.
    pub from_stride: usize,
    /// Where it goes.
    pub to: *mut T,
    /// Distance, in the result, between elements that were neighbors in a line.
    pub to_stride: usize,
    /// Number of lines.
    pub lines: usize,
    /// Elements of a line.
    pub length: usize,
}

impl<T: Copy> Transposition<T> {
    /// Element `e` of line `l` goes to place `l` of column `e`.
    ///
    /// # Safety
    ///
    /// All elements of both matrices are valid, the two do not overlap, nobody else touches them,
    /// and the CPU has the ISA.
    pub unsafe fn run(self, isa: Isa) {
        // SAFETY: passed on; the CPU has the features of the ISA.
        unsafe {
            match isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 if size_of::<T>() == 4 && self.lines > 4 && self.length >= 4 => {
                    x86::wide_words(self.cast());
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 | Isa::Avx512 if size_of::<T>() == 4 => x86::words(self.cast()),
                _ => self.by_elements(),
            }
        }
    }

    /// Reads a few neighbors of each line in turn: a line of the cache is used up before the next
    /// is asked for.
    #[inline(always)]
    unsafe fn by_elements(self) {
        const TOGETHER: usize = 16;
        for first in (0..self.length).step_by(TOGETHER) {
            let count = TOGETHER.min(self.length - first);
            for line in 0..self.lines {
                // SAFETY: passed on.
                unsafe {
                    let from = self.from.add(line * self.from_stride + first);
                    let to = self.to.add(first * self.to_stride + line);
                    for i in 0..count {
                        to.add(i * self.to_stride).write(from.add(i).read());
                    }
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn cast<U>(self) -> Transposition<U> {
        Transposition {
            from: self.from.cast(),
            from_stride: self.from_stride,
            to: self.to.cast(),
            to_stride: self.to_stride,
            lines: self.lines,
            length: self.length,
        }
    }

    /// The part from a line and an element on.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn at(self, line: usize, element: usize) -> (*const T, *mut T) {
        // SAFETY: passed on.
        unsafe {
            let from = self.from.add(line * self.from_stride + element);
            (from, self.to.add(element * self.to_stride + line))
        }
    }
}

/// Lines and elements of a line that are done at a time, so that what is read stays in the
/// first-level cache until all of it was used.
const LINES: usize = 256;
const ELEMENTS: usize = 64;

/// Copies operand 1 of a walk to operand 0 if neighbors of the one lie apart in the other, as in a
/// transposed matrix; else does nothing and says so.
///
/// # Safety
///
/// As for [`execute`](crate::kernels::execute); the pointers are those of the first elements, and the operands
/// do not overlap.
pub(crate) unsafe fn copy<T: Copy + Send + Sync>(
    walk: &Walk<2>,
    to: *mut T,
    from: *const T,
    parallel: &dyn Parallel,
) -> bool {
    let last = walk.axes().len() - 1;
    let (lines, [to_inner, from_stride]) = walk.axes().nth(last).unwrap_or((1, [1, 1]));
    let transposed = walk.axes().position(|(_, [_, stride])| stride == 1);
    let Some(axis) = transposed.filter(|&axis| axis != last && to_inner == 1) else { return false };
    let Some((length, [to_stride, _])) = walk.axes().nth(axis) else { return false };
    if lines < 4 || length < 4 {
        return false;
    }
    let others = walk.axes().enumerate().filter(|&(other, _)| other != axis && other != last);
    let outer = Walk::from_axes(others.map(|(_, axis)| axis));
    let (across, down) = (lines.div_ceil(LINES), length.div_ceil(ELEMENTS));
    let isa = Isa::detect();
    let (to, from) = (Shared::new(to), Shared::new(from.cast_mut()));
    let work = LINES.min(lines) * ELEMENTS.min(length);
    share(parallel, outer.elements() * down * across, work, |range| {
        for index in range {
            let (matrix, place) = (index / (down * across), index % (down * across));
            let (line, element) = (place % across * LINES, place / across * ELEMENTS);
            // SAFETY: parts of the walk are disjoint; the ISA was detected.
            unsafe {
                let from = from.get().add(outer.position(1, matrix));
                let to = to.get().add(outer.position(0, matrix));
                let part = Transposition {
                    from: from.add(line * from_stride + element).cast_const(),
                    from_stride,
                    to: to.add(element * to_stride + line),
                    to_stride,
                    lines: LINES.min(lines - line),
                    length: ELEMENTS.min(length - element),
                };
                part.run(isa);
            }
        }
    });
    true
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Transposition;

    /// Squares of `size` that cover `count`; the last may cover again what the one before covers.
    fn squares(count: usize, size: usize) -> impl Iterator<Item = usize> + Clone {
        (0..count.div_ceil(size)).map(move |index| (index * size).min(count - size))
    }

    #[target_feature(enable = "avx2")]
    pub unsafe fn words(all: Transposition<f32>) {
        let smaller = all.lines.min(all.length);
        // SAFETY: squares lie inside the matrix.
        unsafe {
            if smaller >= 8 {
                for element in squares(all.length, 8) {
                    for line in squares(all.lines, 8) {
                        let (from, to) = all.at(line, element);
                        eight(from, all.from_stride, to, all.to_stride);
                    }
                }
            } else if smaller >= 4 {
                for element in squares(all.length, 4) {
                    for line in squares(all.lines, 4) {
                        let (from, to) = all.at(line, element);
                        four(from, all.from_stride, to, all.to_stride);
                    }
                }
            } else {
                all.by_elements();
            }
        }
    }

    /// More than 4 lines of at least 4 words.
    #[target_feature(enable = "avx2,avx512f,avx512vl")]
    pub unsafe fn wide_words(all: Transposition<f32>) {
        let count = all.lines.min(16);
        for line in squares(all.lines, count) {
            // SAFETY: squares lie inside the matrix.
            unsafe {
                let (from, to) = all.at(line, 0);
                sixteen(from, all.from_stride, to, all.to_stride, count, all.length);
            }
        }
    }

    /// Up to 16 lines.
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512vl")]
    unsafe fn sixteen(
        from: *const f32,
        from_stride: usize,
        to: *mut f32,
        to_stride: usize,
        lines: usize,
        length: usize,
    ) {
        // The last line stands in for those that are not there; what becomes of it is not stored.
        let mut starts = [from; 16];
        for (index, start) in starts.iter_mut().enumerate() {
            *start = from.wrapping_add(index.min(lines - 1) * from_stride);
        }
        let stored = u16::MAX >> (16 - lines);
        for element in squares(length, 4) {
            // SAFETY: four elements of each line are valid, and `lines` places of each column.
            unsafe {
                // Line 4q + i goes to quarter q of register i, so that two rounds of shuffles within
                // quarters are enough.
                let quarters = |i: usize| {
                    let four = |quarter: usize| _mm_loadu_ps(starts[4 * quarter + i].add(element));
                    let all = _mm512_castps128_ps512(four(0));
                    let all = _mm512_mask_broadcast_f32x4(all, 0x00F0, four(1));
                    let all = _mm512_mask_broadcast_f32x4(all, 0x0F00, four(2));
                    _mm512_mask_broadcast_f32x4(all, 0xF000, four(3))
                };
                let [a, b, c, d] = [quarters(0), quarters(1), quarters(2), quarters(3)];
                let (ab_low, ab_high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                let (cd_low, cd_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                let columns = [
                    _mm512_shuffle_ps::<0x44>(ab_low, cd_low),
                    _mm512_shuffle_ps::<0xEE>(ab_low, cd_low),
                    _mm512_shuffle_ps::<0x44>(ab_high, cd_high),
                    _mm512_shuffle_ps::<0xEE>(ab_high, cd_high),
                ];
                for (index, column) in columns.into_iter().enumerate() {
                    let to = to.add((element + index) * to_stride);
                    _mm512_mask_storeu_ps(to, stored, column);
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn eight(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: the square is valid on both sides.
        unsafe {
            // Each register gets half of line l and of line l + 4, so that two rounds of shuffles
            // within halves are enough.
            let pair = |line: usize, half: usize| {
                let low = _mm_loadu_ps(from.add(line * from_stride + half * 4));
                let high = _mm_loadu_ps(from.add((line + 4) * from_stride + half * 4));
                _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
            };
            for half in 0..2 {
                let [a, b, c, d] = [pair(0, half), pair(1, half), pair(2, half), pair(3, half)];
                let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                let columns = [
                    _mm256_shuffle_ps::<0x44>(ab_low, cd_low),
                    _mm256_shuffle_ps::<0xEE>(ab_low, cd_low),
                    _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
                    _mm256_shuffle_ps::<0xEE>(ab_high, cd_high),
                ];
                for (index, column) in columns.into_iter().enumerate() {
                    _mm256_storeu_ps(to.add((half * 4 + index) * to_stride), column);
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn four(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: the square is valid on both sides.
        unsafe {
            let mut lines = [_mm_setzero_ps(); 4];
            for (index, line) in lines.iter_mut().enumerate() {
                *line = _mm_loadu_ps(from.add(index * from_stride));
            }
            let [mut a, mut b, mut c, mut d] = lines;
            _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
            for (index, column) in [a, b, c, d].into_iter().enumerate() {
                _mm_storeu_ps(to.add(index * to_stride), column);
            }
        }
    }
}

#[cfg(test)]
mod tests;

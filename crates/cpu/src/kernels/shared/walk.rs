//! Walks over the elements of several operands of one shape in step.

use std::ops::Range;

use millstream_core::{Layout, MAX_RANK};

/// A shape with the strides of `N` operands, with as few axes as describe it.
///
/// Elements are numbered in the row-major order of the axes. Axes of size 1 are dropped and
/// neighboring axes are joined where every operand allows it, so a dense operand of any rank has one
/// long axis.
#[derive(Clone, Copy)]
pub(crate) struct Walk<const N: usize> {
    /// At least 1.
    rank: usize,
    shape: [usize; MAX_RANK],
    strides: [[usize; MAX_RANK]; N],
    elements: usize,
}

/// The elements of one operand of a walk. What walks over these alone is compiled once, whatever the number of
/// operands.
#[derive(Clone, Copy)]
pub(crate) struct OperandWalk<'a> {
    /// At least one axis.
    shape: &'a [usize],
    /// As many.
    strides: &'a [usize],
}

/// The size of an axis and its strides.
pub(crate) type Axis<const N: usize> = (usize, [usize; N]);

impl<const N: usize> Walk<N> {
    /// The elements in the row-major order of the shape.
    pub fn in_order(layouts: [&Layout; N]) -> Self {
        Self::over(layouts, 0..layouts[0].rank())
    }

    /// The elements of some axes, in the row-major order of those axes.
    pub fn over(layouts: [&Layout; N], axes: impl IntoIterator<Item = usize>) -> Self {
        Self::from_axes(
            axes.into_iter().map(|axis| {
                (layouts[0].shape()[axis], layouts.map(|layout| layout.strides()[axis]))
            }),
        )
    }

    /// All elements in an order that suits the memory of the first operand, the one that is written:
    /// neighbors in memory come one after another, also when its axes are permuted.
    pub fn in_any_order(layouts: [&Layout; N]) -> Self {
        let first = layouts[0];
        let mut order: [usize; MAX_RANK] = std::array::from_fn(|axis| axis);
        let order = &mut order[..first.rank()];
        if !order.is_sorted_by_key(|&axis| std::cmp::Reverse(first.strides()[axis])) {
            // The axis itself breaks ties, so that an unstable sort, which needs no memory, will do.
            order.sort_unstable_by_key(|&axis| (std::cmp::Reverse(first.strides()[axis]), axis));
        }
        Self::over(layouts, order.iter().copied())
    }

    /// The elements of given axes, in their row-major order.
    #[inline]
    pub fn from_axes(mut axes: impl Iterator<Item = Axis<N>>) -> Self {
        Self::joined(&mut axes)
    }

    /// Compiled once for every number of operands, and not for every iterator.
    fn joined(axes: &mut dyn Iterator<Item = Axis<N>>) -> Self {
        let mut walk =
            Walk { rank: 0, shape: [1; MAX_RANK], strides: [[0; MAX_RANK]; N], elements: 1 };
        for (size, strides) in axes {
            // An axis without elements may follow ones whose product does not fit a word.
            walk.elements = walk.elements.saturating_mul(size);
            if size != 1 {
                walk.push(size, strides);
            }
        }
        walk.rank = walk.rank.max(1);
        walk
    }

    fn push(&mut self, size: usize, strides: [usize; N]) {
        let joins = self.rank > 0
            && (0..N).all(|operand| {
                // A stride may be so large for an axis of an empty shape that the product overflows.
                strides[operand].checked_mul(size) == Some(self.strides[operand][self.rank - 1])
            });
        if !joins {
            self.rank += 1;
        }
        let last = self.rank - 1;
        self.shape[last] = if joins { self.shape[last].saturating_mul(size) } else { size };
        for (all, stride) in self.strides.iter_mut().zip(strides) {
            all[last] = stride;
        }
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The size of the innermost axis.
    pub fn inner(&self) -> usize {
        self.shape[self.rank - 1]
    }

    /// The stride of an operand along the innermost axis.
    pub fn inner_stride(&self, operand: usize) -> usize {
        self.strides[operand][self.rank - 1]
    }

    /// The axes, the innermost last.
    pub fn axes(&self) -> impl DoubleEndedIterator<Item = Axis<N>> + ExactSizeIterator {
        (0..self.rank).map(|axis| (self.shape[axis], self.strides.map(|strides| strides[axis])))
    }

    /// The elements of one operand.
    #[inline(always)]
    pub fn of(&self, operand: usize) -> OperandWalk<'_> {
        OperandWalk {
            shape: &self.shape[..self.rank],
            strides: &self.strides[operand][..self.rank],
        }
    }

    /// Where an element of an operand lies, in elements from the operand's first.
    #[inline]
    pub fn position(&self, operand: usize, index: usize) -> usize {
        self.of(operand).position(index)
    }

    /// Walks over the elements `start .. start + len` of all operands as runs along the innermost axis, in
    /// order: `body(position of the first in each operand, elements in the run)`.
    #[inline(always)]
    pub fn rows(&self, start: usize, len: usize, mut body: impl FnMut([usize; N], usize)) {
        if len == 0 {
            return;
        }
        let last = self.rank - 1;
        let mut place = self.of(0).place(start);
        let mut positions: [usize; N] = std::array::from_fn(|operand| {
            let strides = &self.strides[operand];
            (0..self.rank).map(|axis| place[axis] * strides[axis]).sum()
        });
        let mut left = len;
        loop {
            let run = (self.shape[last] - place[last]).min(left);
            body(positions, run);
            left -= run;
            if left == 0 {
                return;
            }
            let mut axis = last;
            loop {
                for (position, strides) in positions.iter_mut().zip(&self.strides) {
                    *position -= place[axis] * strides[axis];
                    *position += strides[axis - 1];
                }
                place[axis] = 0;
                axis -= 1;
                place[axis] += 1;
                if place[axis] < self.shape[axis] {
                    break;
                }
            }
        }
    }

    /// Walks over the elements `start .. start + len` in order, with their position in each operand.
    #[inline(always)]
    pub fn steps(&self, start: usize, len: usize, mut body: impl FnMut([usize; N])) {
        let strides: [usize; N] = std::array::from_fn(|operand| self.inner_stride(operand));
        self.rows(start, len, |mut positions, count| {
            for _ in 0..count {
                body(positions);
                for (position, stride) in positions.iter_mut().zip(strides) {
                    *position += stride;
                }
            }
        });
    }

    /// Splits a range of elements in blocks of at most `limit`. Blocks end at the ends of long rows,
    /// so that a row that lies densely can be used where it is.
    pub fn blocks(&self, range: Range<usize>, limit: usize, mut body: impl FnMut(usize, usize)) {
        let long = self.inner() >= limit / 4;
        let mut start = range.start;
        while start < range.end {
            let mut len = limit.min(range.end - start);
            if long {
                len = len.min(self.inner() - start % self.inner());
            }
            body(start, len);
            start += len;
        }
    }
}

impl OperandWalk<'_> {
    /// The stride along the innermost axis.
    #[inline(always)]
    pub fn inner_stride(&self) -> usize {
        self.strides[self.strides.len() - 1]
    }

    /// Whether the elements `start .. start + len` lie one after another.
    #[inline(always)]
    pub fn is_dense(&self, start: usize, len: usize) -> bool {
        let inner = self.shape[self.shape.len() - 1];
        self.inner_stride() == 1 && start % inner + len <= inner
    }

    /// Where an element lies, in elements from the first.
    #[inline]
    pub fn position(&self, index: usize) -> usize {
        let (mut position, mut rest) = (0, index);
        for (size, stride) in self.shape.iter().zip(self.strides).skip(1).rev() {
            position += rest % size * stride;
            rest /= size;
        }
        position + rest * self.strides[0]
    }

    /// The coordinates of an element.
    fn place(&self, index: usize) -> [usize; MAX_RANK] {
        let mut place = [0; MAX_RANK];
        let mut rest = index;
        for axis in (1..self.shape.len()).rev() {
            place[axis] = rest % self.shape[axis];
            rest /= self.shape[axis];
        }
        place[0] = rest;
        place
    }

    /// Walks over the elements `start .. start + len` as runs along the innermost axis, in order:
    /// `body(position of the first, elements before the run, elements in the run)`.
    pub fn runs(&self, start: usize, len: usize, mut body: impl FnMut(usize, usize, usize)) {
        if len == 0 {
            return;
        }
        let OperandWalk { shape, strides } = *self;
        let last = shape.len() - 1;
        let (mut position, mut place) = (self.position(start), self.place(start));
        let mut done = 0;
        loop {
            let run = (shape[last] - place[last]).min(len - done);
            body(position, done, run);
            done += run;
            if done == len {
                return;
            }
            position -= place[last] * strides[last];
            place[last] = 0;
            let mut axis = last;
            loop {
                axis -= 1;
                place[axis] += 1;
                position += strides[axis];
                if place[axis] < shape[axis] {
                    break;
                }
                position -= place[axis] * strides[axis];
                place[axis] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests;

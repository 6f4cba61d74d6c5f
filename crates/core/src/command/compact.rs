//! What only the data knows the size of.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// The coordinates of all elements other than zero, in row-major order: a column of `indices` (`i64`,
    /// `[rank, elements]`) for each, and their number in `count` (one `i64`). Further columns are 0.
    ///
    /// # Errors
    ///
    /// Outputs of other types or shapes, or operands that do not fit their buffers or overlap.
    pub fn nonzero(indices: Operand<B>, count: Operand<B>, src: Operand<B>) -> Result<Self> {
        Self::new(Op::NonZero, [indices, count], [src])
    }

    /// The slices of `src` along an axis whose condition holds, or without an axis the elements in row-major order,
    /// and their number in `count` (one `i64`). There may be fewer conditions than slices. `dst` has as many slices
    /// as there are conditions; behind those that hold it is 0.
    ///
    /// # Errors
    ///
    /// Conditions that are not `bool` or too many, an axis that does not exist, outputs of other types or shapes, or
    /// operands that do not fit their buffers or overlap.
    pub fn compress(
        dst: Operand<B>,
        count: Operand<B>,
        src: Operand<B>,
        condition: Operand<B>,
        axis: Option<usize>,
    ) -> Result<Self> {
        Self::new(Op::Compress { axis: axis.map(small) }, [dst, count], [src, condition])
    }

    /// The different slices of `src` along an axis, or without an axis its different elements, as
    /// [`Op::Unique`] says. The outputs are values, first, inverse, counts and count.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, outputs of other types or shapes, or operands that do not fit their buffers or
    /// overlap.
    pub fn unique(
        outputs: [Operand<B>; 5],
        src: Operand<B>,
        axis: Option<usize>,
        sorted: bool,
    ) -> Result<Self> {
        Self::new(Op::Unique { axis: axis.map(small), sorted }, outputs, [src])
    }

    /// For every batch and class the boxes of the best scores, without those that overlap a better one, as
    /// [`Op::NonMaxSuppression`] says: at most `most` each, and their number in `count` (one `i64`).
    ///
    /// # Errors
    ///
    /// Types other than `f32`, shapes that do not match, a threshold that is NaN, outputs of other types or shapes,
    /// or operands that do not fit their buffers or overlap.
    #[allow(clippy::too_many_arguments)]
    pub fn non_max_suppression(
        selected: Operand<B>,
        count: Operand<B>,
        boxes: Operand<B>,
        scores: Operand<B>,
        most: usize,
        overlap: f32,
        score: Option<f32>,
        centered: bool,
    ) -> Result<Self> {
        let op = Op::NonMaxSuppression { most, overlap, score, centered };
        Self::new(op, [selected, count], [boxes, scores])
    }
}

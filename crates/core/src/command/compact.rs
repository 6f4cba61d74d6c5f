//! Operations whose number of results depends on the data.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// The coordinates of all nonzero elements, in row-major order. `indices` is `i64` of shape `[rank, elements]`
    /// and has a column for each of them; further columns are 0. `count`, one `i64`, is their number.
    ///
    /// # Errors
    ///
    /// Outputs of other types or shapes, or operands that do not fit their buffers or overlap.
    pub fn nonzero(indices: Operand<B>, count: Operand<B>, src: Operand<B>) -> Result<Self> {
        Self::new(Op::NonZero, [indices, count], [src])
    }

    /// The slices of `src` along an axis whose condition is true. Without an axis, `src` is flat and its elements are
    /// selected. There may be fewer conditions than slices. `dst` has room for as many slices as there are
    /// conditions; what follows the selected ones is 0. `count`, one `i64`, is the number of selected ones.
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

    /// The distinct slices of `src` along an axis, or without an axis its distinct elements. The outputs are values,
    /// first, inverse, counts and count, as [`Op::Unique`] describes them.
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

    /// For every batch and class, the boxes with the best scores, without those that overlap a better one, as
    /// [`Op::NonMaxSuppression`] describes it. At most `most` boxes are selected for each; `count`, one `i64`, is
    /// their number in all.
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

//! Writing elements by index. Indices are as for [gathers](super::gather).

use super::check::small;
use super::{BufferLike, Command, Op, Operand, ScatterReduction};
use crate::{DType, Result};

impl<B: BufferLike> Command<B> {
    /// `src` with single elements along an axis replaced by updates or combined with them. An update goes to the
    /// element of `dst` with the same coordinates, except that the coordinate on the axis is the index at that
    /// position. `indices` and `updates` have the same shape, which must not be larger than `src` on the other axes.
    ///
    /// Updates of the same element are applied in row-major order, and each result is rounded to the element type.
    /// `dst` may be `src`.
    ///
    /// # Errors
    ///
    /// An axis that does not exist, indices of another type than `i32` or `i64`, types or shapes that
    /// do not match, arithmetic on `bool`, or operands that do not fit their buffers or overlap.
    pub fn scatter_elements(
        dst: Operand<B>,
        src: Operand<B>,
        indices: Operand<B>,
        updates: Operand<B>,
        axis: usize,
        reduction: ScatterReduction,
    ) -> Result<Self> {
        let op = Op::ScatterElements { axis: small(axis), reduction };
        Self::new(op, [dst], [src, indices, updates])
    }

    /// `src` with slices replaced by updates or combined with them. The last axis of `indices` holds tuples of
    /// coordinates for the first axes of `dst`. `updates` has the shape `indices[..-1] + src[tuple..]`.
    ///
    /// Updates of the same element are applied in row-major order, and each result is rounded to the element type.
    /// `dst` may be `src`.
    ///
    /// # Errors
    ///
    /// Tuples that are empty or have more coordinates than there are axes, indices of another type than `i32` or
    /// `i64`, types or shapes that do not match, arithmetic on `bool`, or operands that do not fit their buffers or
    /// overlap.
    pub fn scatter_nd(
        dst: Operand<B>,
        src: Operand<B>,
        indices: Operand<B>,
        updates: Operand<B>,
        reduction: ScatterReduction,
    ) -> Result<Self> {
        Self::new(Op::ScatterNd { reduction }, [dst], [src, indices, updates])
    }
}

impl ScatterReduction {
    /// All variants.
    pub const ALL: [ScatterReduction; 5] = {
        use ScatterReduction::*;
        [Replace, Add, Multiply, Max, Min]
    };

    /// Whether elements of this type can be combined in this way.
    pub fn takes(self, dtype: DType) -> bool {
        let arithmetic = matches!(self, ScatterReduction::Add | ScatterReduction::Multiply);
        dtype.is_number() || (dtype == DType::Bool && !arithmetic)
    }
}

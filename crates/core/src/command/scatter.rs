//! Writing elements by index. Indices are as for [gathers](super::gather).

use super::check::small;
use super::{BufferLike, Command, Op, Operand, ScatterReduction};
use crate::{DType, Result};

impl<B: BufferLike> Command<B> {
    /// `src` with single elements along an axis replaced, or combined with updates: the update at each
    /// place goes to that place of `dst` with the coordinate on the axis replaced by the index there.
    /// `indices` and `updates` have one shape, which on the other axes is no larger than `src`.
    ///
    /// Updates of one element are applied in row-major order, each rounded to the element type. `dst`
    /// may be `src`.
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

    /// `src` with slices replaced, or combined with updates. The last axis of `indices` holds tuples of
    /// coordinates for the first axes of `dst`; `updates` has the shape
    /// `indices[..-1] + src[tuple..]`.
    ///
    /// Updates of one element are applied in row-major order, each rounded to the element type. `dst`
    /// may be `src`.
    ///
    /// # Errors
    ///
    /// Tuples that are empty or longer than the axes there are, indices of another type than `i32` or
    /// `i64`, types or shapes that do not match, arithmetic on `bool`, or operands that do not fit
    /// their buffers or overlap.
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
    /// Every way.
    pub const ALL: [ScatterReduction; 5] = {
        use ScatterReduction::*;
        [Replace, Add, Multiply, Max, Min]
    };

    /// Whether elements of the type can be combined so.
    pub fn takes(self, dtype: DType) -> bool {
        let arithmetic = matches!(self, ScatterReduction::Add | ScatterReduction::Multiply);
        dtype.is_number() || (dtype == DType::Bool && !arithmetic)
    }
}

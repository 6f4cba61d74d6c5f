//! Reductions.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::{DType, Error, MAX_RANK, Result};

/// How a reduction combines elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    /// Of integers the sum is taken in 64 bits, and the fraction is cut off.
    Mean,
    /// Of nothing −∞, the lowest integer, or false.
    Max,
    /// Of nothing +∞, the highest integer, or true.
    Min,
    Prod,
    /// The sum of absolute values.
    L1,
    /// The root of the sum of squares. Of integers it is exact until the fraction is cut off, and saturates.
    L2,
    /// Of integers the fraction is cut off, and of nothing it is the lowest integer.
    LogSumExp,
    /// The index of the first largest element, as `i64`.
    ArgMax,
    /// The index of the first smallest element, as `i64`.
    ArgMin,
    /// The index of the last largest element, as `i64`.
    ArgMaxLast,
    /// The index of the last smallest element, as `i64`.
    ArgMinLast,
}

impl ReduceOp {
    /// Every reduction.
    pub const ALL: [ReduceOp; 12] = {
        use ReduceOp::*;
        [Sum, Mean, Max, Min, Prod, L1, L2, LogSumExp, ArgMax, ArgMin, ArgMaxLast, ArgMinLast]
    };

    /// The element type of the output for an input type, or `None` where it has no meaning.
    pub fn output(self, input: DType) -> Option<DType> {
        use ReduceOp::*;
        match self {
            Sum | Mean | Prod | L1 | L2 | LogSumExp => input.is_number().then_some(input),
            Max | Min => (!input.is_storage()).then_some(input),
            ArgMax | ArgMin | ArgMaxLast | ArgMinLast => input.is_number().then_some(DType::I64),
        }
    }

    /// Whether a result exists when nothing is combined.
    pub fn has_identity(self) -> bool {
        use ReduceOp::*;
        match self {
            Sum | Max | Min | Prod | L1 | L2 | LogSumExp => true,
            Mean | ArgMax | ArgMin | ArgMaxLast | ArgMinLast => false,
        }
    }

    /// Whether the result is an index.
    pub fn is_index(self) -> bool {
        use ReduceOp::*;
        matches!(self, ArgMax | ArgMin | ArgMaxLast | ArgMinLast)
    }
}

/// A set of axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Axes(u8);

impl Axes {
    /// The set of the given axes.
    ///
    /// # Errors
    ///
    /// An axis of [`MAX_RANK`] or more, or one that is named twice.
    pub fn new(axes: &[usize]) -> Result<Self> {
        let mut set = 0u8;
        for &axis in axes {
            if axis >= MAX_RANK || set & (1 << axis) != 0 {
                return Err(Error::Invalid {
                    op: "axes",
                    reason: format!("{axes:?} repeats an axis or goes above 7"),
                });
            }
            set |= 1 << axis;
        }
        Ok(Axes(set))
    }

    /// All axes of an operand of that rank.
    pub fn all(rank: usize) -> Self {
        Axes(((1u16 << rank.min(MAX_RANK)) - 1) as u8)
    }

    /// Whether the set has that axis.
    pub fn contains(self, axis: usize) -> bool {
        axis < MAX_RANK && self.0 & (1 << axis) != 0
    }

    /// The axes in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_RANK).filter(move |&axis| self.contains(axis))
    }

    /// How many axes there are.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl<B: BufferLike> Command<B> {
    /// Combines all elements of `src` along `axes`. `dst` has the shape of `src` with size 1 on those
    /// axes; to drop them, give `dst` strides for the axes that stay and any stride for the others.
    ///
    /// # Errors
    ///
    /// An element type the reduction has no meaning for, a `dst` of another shape, an empty reduction
    /// that has no identity, or operands that do not fit their buffers or overlap.
    pub fn reduce(op: ReduceOp, dst: Operand<B>, src: Operand<B>, axes: Axes) -> Result<Self> {
        Self::new(Op::Reduce { op, axes }, [dst], [src])
    }

    /// Softmax along an axis, or its logarithm. `dst` may be `src`.
    ///
    /// # Errors
    ///
    /// A type that is not floating point, shapes or types that differ, or an axis that does not exist.
    pub fn softmax(dst: Operand<B>, src: Operand<B>, axis: usize, log: bool) -> Result<Self> {
        let axis = small(axis);
        Self::new(Op::Softmax { axis, log }, [dst], [src])
    }
}

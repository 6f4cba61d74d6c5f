//! Reductions.

use super::check::small;
use super::{BufferLike, Command, Op, Operand};
use crate::{DType, Error, MAX_RANK, Result};

/// How a reduction combines elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    /// For integers, the sum is taken in 64 bits and the fraction is cut off.
    Mean,
    /// The maximum of no elements is -∞, the lowest integer, or false.
    Max,
    /// The minimum of no elements is +∞, the highest integer, or true.
    Min,
    Prod,
    /// The sum of absolute values.
    L1,
    /// The root of the sum of squares. For integers it is exact, then the fraction is cut off, and it saturates.
    L2,
    /// For integers the fraction is cut off, and the result for no elements is the lowest integer.
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

    /// The element type of the output for an input type, or `None` if the reduction is not defined for that type.
    pub fn output(self, input: DType) -> Option<DType> {
        use ReduceOp::*;
        match self {
            Sum | Mean | Prod | L1 | L2 | LogSumExp => input.is_number().then_some(input),
            Max | Min => (!input.is_storage()).then_some(input),
            ArgMax | ArgMin | ArgMaxLast | ArgMinLast => input.is_number().then_some(DType::I64),
        }
    }

    /// Whether the reduction of no elements has a result.
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
    /// Combines all elements of `src` along `axes`. `dst` has the shape of `src` with size 1 on those axes. To drop
    /// them, give `dst` a layout with strides for the axes that stay and any stride for the others.
    ///
    /// ```
    /// # millstream_core::doctest!();
    /// use millstream::command::{Axes, Command, ReduceOp};
    /// use millstream::memory::Layout;
    /// use millstream::{DType, Device};
    ///
    /// let stream = Device::cpu()?.stream()?;
    /// let layout = |shape: &[usize]| Layout::contiguous(DType::F32, shape);
    /// let (x, sums) = (stream.allocate(24)?, stream.allocate(8)?);
    /// let (x, sums) = (x.operand(layout(&[2, 3])?), sums.operand(layout(&[2, 1])?));
    /// stream.record(Command::reduce(ReduceOp::Sum, sums, x, Axes::new(&[1])?)?)?;
    /// # stream.synchronize()?;
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An element type for which the reduction is not defined, a `dst` of another shape, a reduction of no elements
    /// that has no result, or operands that do not fit their buffers or overlap.
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

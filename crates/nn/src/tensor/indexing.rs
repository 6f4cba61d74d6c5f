//! Indices and ranges of several axes at once.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::Tensor;
use crate::{Index, IndexRange, Result};

/// What [`Tensor::i`] takes of one axis: one index, which removes the axis, or a range.
pub trait AxisIndex {
    /// Applies it to an axis. Gives the result, and the axis that comes next.
    #[doc(hidden)]
    fn apply(&self, tensor: &Tensor, axis: usize) -> Result<(Tensor, usize)>;
}

macro_rules! indices {
    ($($integer:ty),*) => {
        $(
            impl AxisIndex for $integer {
                fn apply(&self, tensor: &Tensor, axis: usize) -> Result<(Tensor, usize)> {
                    Ok((tensor.select(axis, *self)?, axis))
                }
            }
        )*
    };
}

indices!(i32, isize, usize);

macro_rules! ranges {
    ($($range:ident),*) => {
        $(
            impl<P: Index> AxisIndex for $range<P> {
                fn apply(&self, tensor: &Tensor, axis: usize) -> Result<(Tensor, usize)> {
                    ranged(self, tensor, axis)
                }
            }
        )*
    };
}

ranges!(Range, RangeFrom, RangeTo, RangeInclusive, RangeToInclusive);

impl AxisIndex for RangeFull {
    fn apply(&self, tensor: &Tensor, axis: usize) -> Result<(Tensor, usize)> {
        ranged(self, tensor, axis)
    }
}

fn ranged(range: &impl IndexRange, tensor: &Tensor, axis: usize) -> Result<(Tensor, usize)> {
    Ok((tensor.slice(axis, range.clone())?, axis + 1))
}

/// One [`AxisIndex`], or one for each of the first axes: `(0, 1..3, ..)`.
pub trait TensorIndex {
    #[doc(hidden)]
    fn apply_all(&self, tensor: &Tensor) -> Result<Tensor>;
}

impl<P: AxisIndex> TensorIndex for P {
    fn apply_all(&self, tensor: &Tensor) -> Result<Tensor> {
        Ok(self.apply(tensor, 0)?.0)
    }
}

macro_rules! tuples {
    ($(($($one:ident $index:tt),*))*) => {
        $(
            impl<$($one: AxisIndex),*> TensorIndex for ($($one,)*) {
                fn apply_all(&self, tensor: &Tensor) -> Result<Tensor> {
                    let at = (tensor.clone(), 0);
                    $(let at = self.$index.apply(&at.0, at.1)?;)*
                    Ok(at.0)
                }
            }
        )*
    };
}

tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

impl Tensor {
    /// Indices and ranges of the first axes, as in `tensor.i((0, 1..3, -1))`. Copies nothing.
    ///
    /// ```
    /// # millstream_nn::doctest!();
    /// use millstream::{Device, Tensor};
    /// let tensor = Tensor::new(&[[1i64, 2, 3], [4, 5, 6]], &Device::cpu()?)?;
    /// assert_eq!(tensor.i(1)?.to_vec::<i64>()?, [4, 5, 6]);
    /// assert_eq!(tensor.i((.., -2..))?.to_vec2::<i64>()?, [[2, 3], [5, 6]]);
    /// assert_eq!(tensor.i((0, 2))?.to_scalar::<i64>()?, 3);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// More indices than axes, or indices that do not exist.
    #[doc(alias = "index")]
    pub fn i(&self, index: impl TensorIndex) -> Result<Self> {
        index.apply_all(self)
    }
}

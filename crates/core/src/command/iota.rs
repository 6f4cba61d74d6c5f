//! Evenly spaced numbers.

use super::check::small;
use super::{BufferLike, Command, Op, Operand, TensorSpec};
use crate::{Result, Scalar};

/// Parameters of [`Op::Iota`](super::Op::Iota).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IotaParams {
    /// The number at index 0.
    pub start: Scalar,
    /// What is added from one index to the next.
    pub step: Scalar,
    /// The axis along which they change.
    pub axis: u8,
    /// The type and shape of `dst`.
    pub spec: TensorSpec,
}

impl<B: BufferLike> Command<B> {
    /// Gives every element `start + i · step`, where `i` is its index along an axis.
    ///
    /// Integers are exact and wrap around. Floating-point numbers are computed in the type of `dst`, or in `f32` for
    /// types of 16 bits: start and step are rounded to it, then the product, then the sum.
    ///
    /// # Errors
    ///
    /// `bool`, an axis that does not exist, or an operand that does not fit its buffer.
    pub fn iota(
        dst: Operand<B>,
        axis: usize,
        start: impl Into<Scalar>,
        step: impl Into<Scalar>,
    ) -> Result<Self> {
        let (start, step, spec) = (start.into(), step.into(), TensorSpec::of(&dst.layout));
        let params = Box::new(IotaParams { start, step, axis: small(axis), spec });
        Self::new(Op::Iota { params }, [dst], [])
    }
}

//! Normalization.

use super::check::{narrow, small};
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Layer normalization over the last `axes` axes: `(x - mean) / sqrt(variance + epsilon)`, then
    /// `· weight + bias`. `weight` and `bias` broadcast to the shape of those axes. `dst` may be `src`.
    ///
    /// # Errors
    ///
    /// A type that is not floating point, shapes or types that differ, no axis or more than there are.
    pub fn layer_norm(
        dst: Operand<B>,
        src: Operand<B>,
        weight: Option<Operand<B>>,
        bias: Option<Operand<B>>,
        axes: usize,
        epsilon: f32,
    ) -> Result<Self> {
        let op = Op::LayerNorm {
            axes: small(axes),
            epsilon,
            weight: weight.is_some(),
            bias: bias.is_some(),
            moments: false,
        };
        Self::new(op, [dst], std::iter::once(src).chain(weight).chain(bias))
    }

    /// Divides by the root of the mean square over the last `axes` axes:
    /// `x / sqrt(mean(x²) + epsilon)`, then `· weight`. `weight` broadcasts to the shape of those axes.
    /// `dst` may be `src`.
    ///
    /// # Errors
    ///
    /// A type that is not floating point, shapes or types that differ, no axis or more than there are.
    pub fn rms_norm(
        dst: Operand<B>,
        src: Operand<B>,
        weight: Option<Operand<B>>,
        axes: usize,
        epsilon: f32,
    ) -> Result<Self> {
        let op = Op::RmsNorm { axes: small(axes), epsilon, weight: weight.is_some() };
        Self::new(op, [dst], std::iter::once(src).chain(weight))
    }

    /// Normalizes groups of neighboring channels of `[batch, channels, …]`: `(x - mean) / sqrt(variance + epsilon)`,
    /// then `· weight + bias`. Mean and variance are taken over the channels of a group and all axes after the
    /// channels. `weight` and `bias` have one element per channel. With one channel per group this is instance
    /// normalization. `dst` may be `src`.
    ///
    /// # Errors
    ///
    /// A type that is not floating point, shapes or types that differ, a rank below 2, or a number of
    /// groups that does not divide the channels.
    pub fn group_norm(
        dst: Operand<B>,
        src: Operand<B>,
        weight: Option<Operand<B>>,
        bias: Option<Operand<B>>,
        groups: usize,
        epsilon: f32,
    ) -> Result<Self> {
        let op = Op::GroupNorm {
            groups: narrow("group_norm", "groups", groups)?,
            epsilon,
            weight: weight.is_some(),
            bias: bias.is_some(),
        };
        Self::new(op, [dst], std::iter::once(src).chain(weight).chain(bias))
    }
}

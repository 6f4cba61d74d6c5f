//! Normalisation.

use super::check::Check;
use super::{BufferLike, Command, Op, Operand};
use crate::Result;

impl<B: BufferLike> Command<B> {
    /// Layer normalisation over the last `axes` axes: `(x - mean) / sqrt(variance + epsilon)`, then
    /// `· weight + bias`. `weight` and `bias` have the shape of those axes. `dst` may be `src`.
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
        let check = Check("layer_norm");
        check.float(&src.layout)?;
        check.same_dtype(&dst.layout, &src.layout)?;
        check.same_shape(&src.layout, &dst.layout)?;
        check.that((1..=src.layout.rank()).contains(&axes), || {
            format!("{axes} axes of an input of rank {}", src.layout.rank())
        })?;
        check.that(epsilon >= 0.0, || format!("epsilon {epsilon} is negative"))?;
        let tail = &src.layout.shape()[src.layout.rank() - axes..];
        for parameter in weight.iter().chain(&bias) {
            check.same_dtype(&parameter.layout, &src.layout)?;
            check.that(parameter.layout.shape() == tail, || {
                format!("weight or bias {:?}, needs {tail:?}", parameter.layout.shape())
            })?;
        }
        let op = Op::LayerNorm {
            axes: axes as u8,
            epsilon,
            weight: weight.is_some(),
            bias: bias.is_some(),
        };
        let inputs = std::iter::once(src).chain(weight).chain(bias);
        Self::assemble(op, [dst], inputs)
    }

    /// Divides by the root of the mean square over the last `axes` axes:
    /// `x / sqrt(mean(x²) + epsilon)`, then `· weight`. `weight` has the shape of those axes. `dst` may
    /// be `src`.
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
        let check = Check("rms_norm");
        same_float(&check, &dst, &src, epsilon)?;
        check.that((1..=src.layout.rank()).contains(&axes), || {
            format!("{axes} axes of an input of rank {}", src.layout.rank())
        })?;
        let tail = &src.layout.shape()[src.layout.rank() - axes..];
        parameter(&check, weight.as_ref(), &src, tail)?;
        let op = Op::RmsNorm { axes: axes as u8, epsilon, weight: weight.is_some() };
        let inputs = std::iter::once(src).chain(weight);
        Self::assemble(op, [dst], inputs)
    }

    /// Normalises groups of neighbouring channels of `[batch, channels, …]`:
    /// `(x - mean) / sqrt(variance + epsilon)` with mean and variance over the channels of a group and
    /// all axes behind them, then `· weight + bias`, which have one element per channel. One channel
    /// per group is instance normalisation. `dst` may be `src`.
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
        let check = Check("group_norm");
        same_float(&check, &dst, &src, epsilon)?;
        let &[_, channels, ..] = src.layout.shape() else {
            return check.fail(format!("input {:?} has no axis of channels", src.layout.shape()));
        };
        let fits = groups > 0 && channels.is_multiple_of(groups) && u32::try_from(groups).is_ok();
        check.that(fits, || format!("{channels} channels in {groups} groups"))?;
        parameter(&check, weight.as_ref(), &src, &[channels])?;
        parameter(&check, bias.as_ref(), &src, &[channels])?;
        let op = Op::GroupNorm {
            groups: groups as u32,
            epsilon,
            weight: weight.is_some(),
            bias: bias.is_some(),
        };
        let inputs = std::iter::once(src).chain(weight).chain(bias);
        Self::assemble(op, [dst], inputs)
    }
}

fn same_float<B>(check: &Check, dst: &Operand<B>, src: &Operand<B>, epsilon: f32) -> Result<()> {
    check.float(&src.layout)?;
    check.same_dtype(&dst.layout, &src.layout)?;
    check.same_shape(&src.layout, &dst.layout)?;
    check.that(epsilon >= 0.0, || format!("epsilon {epsilon} is negative"))
}

fn parameter<B>(
    check: &Check,
    parameter: Option<&Operand<B>>,
    src: &Operand<B>,
    shape: &[usize],
) -> Result<()> {
    let Some(parameter) = parameter else { return Ok(()) };
    check.same_dtype(&parameter.layout, &src.layout)?;
    check.that(parameter.layout.shape() == shape, || {
        format!("weight or bias {:?}, needs {shape:?}", parameter.layout.shape())
    })
}

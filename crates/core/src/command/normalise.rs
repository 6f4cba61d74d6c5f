//! Normalisation.

use super::check::Check;
use super::{BufferLike, Command, InPlace, Op, Operand};
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
        Self::assemble(op, [dst], inputs, InPlace::SameLayout)
    }
}
